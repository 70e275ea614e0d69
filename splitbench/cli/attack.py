"""splitbench attack"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from splitbench.cli._output import Json, RunId, StorePath, err, out, print_json, showing_progress
from splitbench.cli._settings import assign

if TYPE_CHECKING:
    from splitbench.store.outcome import Outcome


def attack(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ATTACK", help="`splitbench ls attacks` lists them; or file.py:Class.")
    ],
    run: RunId = "latest",
    queries: Annotated[
        int | None, typer.Option(help="Inputs it may put through the client (default: one per auxiliary image).")
    ] = None,
    auxiliary: Annotated[int | None, typer.Option(help="Public images it holds (default: all set aside).")] = None,
    architecture: Annotated[
        bool | None, typer.Option(help="Whether it knows the client's layers (default: yes).")
    ] = None,
    labels: Annotated[
        bool | None, typer.Option(help="Whether it knows the labels (default: if they were sent).")
    ] = None,
    knowledge: Annotated[
        str | None, typer.Option(help="Of the defense: none, family (guesses its secret) or exact (holds it).")
    ] = None,
    tampers: Annotated[bool | None, typer.Option(help="Whether the server is malicious (default: no).")] = None,
    transcript: Annotated[
        bool | None, typer.Option(help="Whether it kept what passed in the training (default: if it was recorded).")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="How often it was sent each image, defended anew (default: once).")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Iterations (500) or minutes (2m) it may take.")] = None,
    restarts: Annotated[int, typer.Option(help="Tries from other draws; the best of each image counts.")] = 1,
    double: Annotated[bool, typer.Option(help="Then take twice the iterations, and see whether it matters.")] = False,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Attack a stored run and score what was recovered.

    The settings of the attack are options too: [bold]splitbench attack NAME --help[/] lists them.
    """
    asked = {
        "queries": queries,
        "auxiliary": auxiliary,
        "architecture": architecture,
        "labels": labels,
        "tampers": tampers,
        "transcript": transcript,
        "knowledge": knowledge,
        "rounds": rounds,
    }
    given = assign(context.meta["settings"], [("attack", "attacks", name)], context.meta["options"])

    from splitbench.runner import api

    threat: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    effort: dict[str, Any] = {"budget": budget, "restarts": restarts, "early": _tell}
    with showing_progress():
        mount = partial(api.attack, given["attack"], run=run, store=store, **effort, **threat)
        outcome = mount()
        further = None
        if double and outcome.status == "done":
            further = mount(double=True)
    if json:
        document = _document(outcome)
        if further is not None:
            verdicts = [api.certificate(each, store=store).verdict for each in (outcome, further)]
            document["doubled"] = {**_document(further), "same_verdict": verdicts[0] == verdicts[1]}
        print_json(document)
    elif outcome.status == "done":
        scores = "  ".join(f"{metric} {value:.3f}" for metric, value in sorted(outcome.ranked.items()))
        out().print(f"[bold]{outcome.attack}[/] on run {outcome.run} ({outcome.dataset} · {outcome.defense})")
        seen = api.certificate(outcome, store=store)
        beside = [("undefended", seen.undefended)] if outcome.twin != outcome.key else []
        beside += [("mean image", seen.floor)] if seen.floor is not None else []
        said = ", ".join(f"{what} {value:.3f}" for what, value in beside if value is not None)
        if seen.value is not None:
            out().print(f"ssim {seen.value:.3f}" + (f" ({said})" if said else ""))
        if not seen.calibrated:
            reached = "nothing" if seen.undefended is None else f"{seen.undefended:.3f}"
            out().print(f"[yellow]uncalibrated[/]: undefended it reaches {reached}, its bar is {seen.bar:g}")
        if further is not None:
            again = api.certificate(further, store=store)
            same = (
                "the same verdict"
                if again.verdict == seen.verdict
                else f"[yellow]another verdict[/]: not {seen.verdict}"
            )
            shown = "nothing" if again.value is None else f"ssim {again.value:.3f}"
            out().print(f"twice the iterations: {shown}, {same}, {again.verdict}")
        out().print(f"{scores}  over {len(outcome.samples)} images ({outcome.costs['seconds']:.0f} s)")
        out().print(f"[dim]picture: {api.picture(outcome, store)}[/]", soft_wrap=True)
    else:
        err().print(f"{outcome.attack} {outcome.status}: {outcome.reason}")
    raise typer.Exit(1 if outcome.status == "failed" else 0)


def _tell(outcome: Outcome) -> None:
    ssim = outcome.ranked.get("ssim")
    shown = f": ssim {ssim:.3f}" if ssim is not None else ""
    err().print(f"{outcome.attack} is done{shown}. Now the undefended twin, trained and attacked once, then kept.")


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "run": outcome.run,
        "key": outcome.key,
        "status": outcome.status,
        "reason": outcome.reason,
        "scores": outcome.ranked,
        "costs": outcome.costs,
    }
