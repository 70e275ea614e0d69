"""splitbench train"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from splitbench.cli._options import given, with_options
from splitbench.cli._output import DeviceName, Json, Scale, StorePath, err, out, print_json, showing_progress
from splitbench.cli._settings import assign
from splitbench.plan.cells import Counts, Options, Training

if TYPE_CHECKING:
    from splitbench.store.outcome import Outcome


@with_options({"Run": Options, "Training": Training, "Samples": Counts})
def train(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Option(help="A data set, or a path to your own .npz, .csv or image folder.")
    ] = "fashion_mnist_mini",
    model: Annotated[
        str, typer.Option(help="A model, any timm name, an encoder's folder, or file.py:Class.")
    ] = "resnet18",
    cut: Annotated[str, typer.Option(help="Where the network is cut; `show model NAME` lists the places.")] = "",
    topology: Annotated[str, typer.Option(help="Who talks to whom.")] = "vanilla",
    defense: Annotated[
        list[str] | None, typer.Option(help="May be given several times; applied in that order.")
    ] = None,
    auxiliary_dataset: Annotated[
        str, typer.Option(help="A data set that the adversary's samples come from (default: that of the private ones).")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    scale: Scale = "desk",
    device: DeviceName = "",
    store: StorePath = None,
    json: Json = False,
    **fields: Any,
) -> None:
    """Train a split network under a defense. Prints the run's id.

    The settings of the defense, model, data set and topology chosen are options too: add [bold]--help[/] after
    [bold]--defense NAME[/] to see them.
    """
    names = defense or ["none"]
    chosen = [("data", "data", dataset), ("model", "models", model), ("topology", "topologies", topology)]
    chosen += [("auxiliary", "data", auxiliary_dataset)] if auxiliary_dataset else []
    chosen += [(f"defense{i}", "defenses", name) for i, name in enumerate(names)]
    parts = assign(context.meta["settings"], chosen, context.meta["options"])  # type: ignore[arg-type]

    from splitbench.runner import api

    with showing_progress():
        outcome = api.train(
            [parts.pop(f"defense{i}") for i in range(len(names))],
            store=store,
            seed=seed,
            scale=scale,
            device=device,
            training=given(fields, Training),
            samples=given(fields, Counts),
            **given(fields, Options),
            **parts,
            **({"cut": cut} if cut else {}),
        )
    if json:
        print_json({"run": outcome.run, "status": outcome.status, "reason": outcome.reason, "costs": outcome.costs,
                    "scores": outcome.ranked})  # fmt: skip
    elif outcome.status == "done":
        scores = "  ".join(f"{s.metric} {s.value:.3f}" for s in outcome.scores)
        out().print(
            f"run [bold]{outcome.run}[/]  {outcome.dataset} · {outcome.model} cut at {outcome.cut} · {outcome.defense}"
        )
        out().print(f"{scores}  ({outcome.costs['seconds']:.0f} s)")
        if warning := _did_not_learn(outcome):
            out().print(f"[yellow]{warning}[/]", soft_wrap=True)
        suggested = "inversion" if outcome.modality == "image" else "lookup"
        out().print(f"[dim]next: splitbench attack {suggested} --run {outcome.run}[/]")
    else:
        err().print(f"run {outcome.run} {outcome.status}: {outcome.reason}")
    raise typer.Exit(0 if outcome.status == "done" else 1)


def _did_not_learn(outcome: Outcome) -> str:
    """A weak victim proves nothing, so training one is reported at once."""
    score, chance = outcome.score(outcome.ranking), outcome.costs.get("chance")
    if score is None or not outcome.at_chance:
        return ""
    return (
        f"the network did not learn: {score.metric} {score.value:.3f}, and always answering the commonest label gives "
        f"{chance:.3f}; more --epochs, another --lr or more --private samples may help"
    )
