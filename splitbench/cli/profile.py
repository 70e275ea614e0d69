"""splitbench profile"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from splitbench.cli._output import Json, StorePath, err, out, print_json
from splitbench.cli._settings import assign
from splitbench.core.errors import SplitbenchError, nearest

if TYPE_CHECKING:
    from splitbench.edge.case import Case
    from splitbench.edge.profile import Profile

WORKS = ("training", "inference")


def profile(
    context: typer.Context,
    device: Annotated[str, typer.Option(help="A device, `local`, or a path to a .yaml; `--device list` lists.")] = "rpi4",
    dataset: Annotated[str, typer.Option(help="Whose samples are counted; only its shape and size matter.")] = "",
    shape: Annotated[str, typer.Option(help="Instead of a data set: a sample, as 3x224x224, or the length of a text.")] = "",
    classes: Annotated[int | None, typer.Option(help="With --shape: how many classes [default: 10].")] = None,
    samples: Annotated[int | None, typer.Option(help="Training samples of all clients [default: the data set's].")] = None,
    model: Annotated[str, typer.Option(help="A model, any timm name, or file.py:Class.")] = "resnet18",
    cut: Annotated[str, typer.Option(help="Where the network is cut [default: its first place].")] = "",
    topology: Annotated[str, typer.Option(help="Who talks to whom.")] = "vanilla",
    defense: Annotated[list[str] | None, typer.Option(help="May be given several times; applied in that order.")] = None,
    clients: Annotated[int, typer.Option(help="How many clients share the samples.")] = 1,
    batch: Annotated[int, typer.Option(help="Samples a client puts into one step.")] = 64,
    epochs: Annotated[int, typer.Option(help="Of a training.")] = 5,
    optimizer: Annotated[str, typer.Option(help="adam, adamw or sgd.")] = "adam",
    phase: Annotated[str, typer.Option(help="training or inference.")] = "training",
    layers: Annotated[bool, typer.Option("--layers", help="Also what each module costs.")] = False,
    format: Annotated[str, typer.Option("--format", help="text, markdown, latex, csv or json.")] = "text",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """What a client costs on a device: MACs, memory, traffic, time and energy, and whether it fits.

    The settings of the defense and the model chosen are options too: add [bold]--help[/] after [bold]--defense NAME[/].
    """
    from splitbench.report import grid

    form = "json" if json else format
    if form not in grid.FORMATS:
        raise SplitbenchError(f"no format '{form}'{nearest(form, grid.FORMATS)}")
    if phase not in WORKS:
        raise SplitbenchError(f"no phase '{phase}'{nearest(phase, WORKS)}")
    from splitbench.edge import device as devices

    if device == "list":
        _list_devices(form)
        return
    chosen = devices.load(device)
    names = defense or ["none"]
    parts = [("model", "models", model), ("topology", "topologies", topology)]
    parts += [("data", "data", dataset)] if dataset else []
    parts += [(f"defense{i}", "defenses", name) for i, name in enumerate(names)]
    given = assign(context.meta["settings"], parts, context.meta["options"])  # type: ignore[arg-type]

    from splitbench.edge.ask import ask
    from splitbench.edge.profile import profile as make
    from splitbench.edge.tables import layers as by_layer
    from splitbench.edge.tables import sheets, verdict

    case = ask(
        model=given["model"],
        cut=cut,
        defenses=[given[f"defense{i}"] for i in range(len(names))],
        topology=given["topology"],
        dataset=given.get("data"),
        shape=shape,
        classes=classes,
        samples=samples,
        clients=clients,
        training={"batch": batch, "epochs": epochs, "optimizer": optimizer},
        work=phase,
    )
    made = make(case, chosen)
    if form == "json":
        print_json(made.record())
        return
    grids = [grid.Grid(*sheet) for sheet in [*sheets(made), *([by_layer(made)] if layers else [])]]
    _print(grids, form)
    if form == "text":
        out().print(f"[bold]{escape(verdict(made))}[/]")
        if made.step.note:
            err().print(made.step.note)


def _print(grids: list[Any], form: str) -> None:
    for grid in grids:
        if form == "text":
            table = Table(title=grid.title, title_justify="left", title_style="bold")
            for i, column in enumerate(grid.columns):
                table.add_column(column, justify="left" if i == 0 else "right")
            for row in grid.rows:
                table.add_row(*(escape(cell) for cell in row))
            out().print(table)
        else:
            write = {"markdown": grid.markdown, "latex": grid.latex, "csv": grid.comma_separated}[form]
            typer.echo(write())


def _list_devices(form: str) -> None:
    from splitbench.edge import device as devices

    rows = []
    for name in devices.names():
        try:
            found = devices.load(name)
        except SplitbenchError as error:
            rows.append((name, str(error).splitlines()[0]))
            continue
        rows.append((name, found.title))
    for name, title in rows:
        typer.echo(f"{name:<18} {title}")
