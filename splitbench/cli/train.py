"""splitbench train"""

from __future__ import annotations

from typing import Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath, err, out, print_json, showing_progress
from splitbench.cli._settings import assign


def train(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Option(help="A data set, or a path to your own .npz or image folder.")
    ] = "fashion_mnist_mini",
    model: Annotated[str, typer.Option(help="A model, any timm name, or file.py:Class.")] = "resnet18",
    cut: Annotated[str, typer.Option(help="Where the network is cut; `show model NAME` lists the places.")] = "",
    topology: Annotated[str, typer.Option(help="Who talks to whom.")] = "vanilla",
    defense: Annotated[
        list[str] | None, typer.Option(help="May be given several times; applied in that order.")
    ] = None,
    clients: Annotated[int, typer.Option(help="How many clients share the private data.")] = 1,
    partition: Annotated[str, typer.Option(help="iid or dirichlet.")] = "iid",
    alpha: Annotated[float, typer.Option(help="Of a Dirichlet partition; small is uneven.")] = 0.5,
    protected: Annotated[int | None, typer.Option(help="How many clients defend themselves (default: all).")] = None,
    epochs: Annotated[int, typer.Option()] = 5,
    batch: Annotated[int, typer.Option(help="Samples a client puts into one step.")] = 64,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    optimizer: Annotated[str, typer.Option(help="adam, adamw or sgd.")] = "adam",
    schedule: Annotated[str, typer.Option(help="constant or cosine.")] = "constant",
    weight_decay: Annotated[float, typer.Option()] = 0.0,
    momentum: Annotated[float, typer.Option(help="Of sgd.")] = 0.9,
    warmup: Annotated[int, typer.Option(help="Epochs of linear warm-up.")] = 0,
    private: Annotated[int, typer.Option(help="Training images the clients hold; 0: all that are left.")] = 0,
    auxiliary: Annotated[int, typer.Option(help="Images set aside for the adversary.")] = 500,
    evaluation: Annotated[int, typer.Option(help="Images the attacks will be judged on.")] = 64,
    record: Annotated[bool, typer.Option("--record", help="Keep everything that crosses the wire.")] = False,
    seed: Annotated[int, typer.Option()] = 0,
    scale: Scale = "desk",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Train a split network under a defense. Prints the run's id.

    The settings of the defense, model, data set and topology chosen are options too: add [bold]--help[/] after
    [bold]--defense NAME[/] to see them.
    """
    names = defense or ["none"]
    chosen = [("data", "data", dataset), ("model", "models", model), ("topology", "topologies", topology)]
    chosen += [(f"defense{i}", "defenses", name) for i, name in enumerate(names)]
    given = assign(context.meta["settings"], chosen, context.meta["options"])  # type: ignore[arg-type]

    from splitbench.runner import api

    training = {"epochs": epochs, "batch": batch, "lr": lr, "optimizer": optimizer, "schedule": schedule,
                "weight_decay": weight_decay, "momentum": momentum, "warmup": warmup}  # fmt: skip
    with showing_progress():
        outcome = api.train(
            [given[f"defense{i}"] for i in range(len(names))],
            store=store,
            seed=seed,
            scale=scale,
            data=given["data"],
            model=given["model"],
            topology=given["topology"],
            clients=clients,
            partition=partition,
            alpha=alpha,
            protected=protected,
            record=record,
            training=training,
            samples={"private": private, "auxiliary": auxiliary, "evaluation": evaluation},
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
        out().print(f"[dim]next: splitbench attack inversion --run {outcome.run}[/]")
    else:
        err().print(f"run {outcome.run} {outcome.status}: {outcome.reason}")
    raise typer.Exit(0 if outcome.status == "done" else 1)
