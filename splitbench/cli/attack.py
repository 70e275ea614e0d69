"""splitbench attack"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from splitbench.cli._options import given, with_options
from splitbench.cli._output import DeviceName, Json, RunId, StorePath, err, out, print_json, showing_progress
from splitbench.cli._settings import assign
from splitbench.core.threat import ThreatModel

if TYPE_CHECKING:
    from splitbench.runner.verdict import Verdict
    from splitbench.store.outcome import Outcome


@with_options({"Adversary": ThreatModel}, left_open=True)
def attack(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="ATTACK", help="`splitbench ls attacks` lists them; or file.py:Class.")
    ],
    run: RunId = "latest",
    budget: Annotated[str | None, typer.Option(help="Iterations (500) or minutes (2m) it may take.")] = None,
    restarts: Annotated[int, typer.Option(help="Tries from other draws; the best of each sample counts.")] = 1,
    double: Annotated[
        bool, typer.Option("--double", help="Then take twice the iterations, and see whether it matters.")
    ] = False,
    device: DeviceName = "",
    store: StorePath = None,
    json: Json = False,
    **fields: Any,
) -> None:
    """Attack a stored run and score what was recovered.

    The settings of the attack are options too: [bold]splitbench attack NAME --help[/] lists them.
    """
    parts = assign(context.meta["settings"], [("attack", "attacks", name)], context.meta["options"])

    from splitbench.runner import api

    effort: dict[str, Any] = {"budget": budget, "restarts": restarts, "early": _report_early, "device": device}
    with showing_progress():
        mount = partial(api.attack, parts["attack"], run=run, store=store, **effort, **given(fields, ThreatModel))
        outcome = mount()
        further = None
        if double and outcome.status == "done":
            further = mount(double=True)
    if json:
        document = _document(outcome)
        if further is not None:
            verdicts = [api.verdict(each, store=store).verdict for each in (outcome, further)]
            document["doubled"] = {**_document(further), "same_verdict": verdicts[0] == verdicts[1]}
        print_json(document)
    elif outcome.status == "done":
        doubled = api.verdict(further, store=store) if further is not None else None
        _print(outcome, api.verdict(outcome, store=store), doubled)
        picture = api.picture(outcome, store)
        if picture.is_file():
            out().print(f"[dim]picture: {picture}[/]", soft_wrap=True)
    else:
        err().print(f"{outcome.attack} {outcome.status}: {outcome.reason}", soft_wrap=True)
    raise typer.Exit(1 if outcome.status == "failed" else 0)


def _print(outcome: Outcome, seen: Verdict, doubled: Verdict | None) -> None:
    metric = outcome.ranking
    out().print(f"[bold]{outcome.adversary}[/] on run {outcome.run} ({outcome.dataset} · {outcome.defense})")
    beside = [("undefended", seen.undefended)] if outcome.twin != outcome.key else []
    beside += [("blind guess", seen.floor)]
    said = ", ".join(f"{what} {value:.3f}" for what, value in beside if value is not None)
    if seen.value is not None:
        out().print(f"{metric} {seen.value:.3f}" + (f" ({said})" if said else ""))
    if not seen.calibrated and outcome.role == "attack":
        reached = "nothing" if seen.undefended is None else f"{metric} {seen.undefended:.3f}"
        bars = " and ".join(f"{name} {value:g}" for name, value in outcome.bars)
        wanted = f"its bar is {bars}" if bars else "no better than a blind guess"
        out().print(f"[yellow]uncalibrated[/]: undefended it reaches {reached}, {wanted}")
    if doubled is not None:
        same = (
            "the same verdict" if doubled.verdict == seen.verdict else f"[yellow]another verdict[/]: not {seen.verdict}"
        )
        shown = "nothing" if doubled.value is None else f"{metric} {doubled.value:.3f}"
        out().print(f"twice the iterations: {shown}, {same}, {doubled.verdict}")
    scores = "  ".join(f"{name} {value:.3f}" for name, value in sorted(outcome.ranked.items()))
    out().print(f"{scores}  over {len(outcome.samples)} {outcome.unit}s ({outcome.costs['seconds']:.0f} s)")


def _report_early(outcome: Outcome) -> None:
    value = outcome.ranked.get(outcome.ranking)
    shown = f": {outcome.ranking} {value:.3f}" if value is not None else ""
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
