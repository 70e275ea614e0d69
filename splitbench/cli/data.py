"""splitbench data"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from splitbench.cli._output import Json, out, print_json, showing_progress
from splitbench.core import registry
from splitbench.core.errors import SplitbenchError, nearest

app = typer.Typer(help="Which data sets are here, and how to get the others.", invoke_without_command=True)


@app.callback(invoke_without_command=True)
def listing(context: typer.Context, json: Json = False) -> None:
    """Which data sets are here, and where they were found."""
    if context.invoked_subcommand is not None:
        return
    from splitbench.data._listing import listing as entries

    rows = [{"name": e.name, "found": str(e.path) if e.path else "", "note": e.note} for e in entries()]
    if json:
        print_json(rows)
        return
    grid = Table(box=None, pad_edge=False)
    for heading in ("name", "found", "note"):
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(f"[bold]{row['name']}[/]", row["found"] or "[dim]not here[/]", row["note"])
    out().print(grid)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set.")],
    folder: Annotated[str | None, typer.Option(help="Where to put it (default: the user's cache).")] = None,
    json: Json = False,
) -> None:
    """Download the official files of a data set and check their digests."""
    if name not in registry.names("data"):
        raise SplitbenchError(f"no data set named '{name}'{nearest(name, registry.names('data'))}")
    from pathlib import Path

    from splitbench.data._download.fetch import fetch as download
    from splitbench.data._folders import cache

    with showing_progress():
        path = download(name, Path(folder) if folder else cache())
    if json:
        print_json({"name": name, "path": str(path)})
    else:
        out().print(f"{name} is in {path}")


@app.command()
def verify(name: Annotated[str, typer.Argument(help="A data set, or a path to your own.")], json: Json = False) -> None:
    """Load a data set, check every array, and print its digest."""
    from splitbench.plan.components import resolve
    from splitbench.plan.feasible import load_data

    part, mistakes = resolve("data", name, "data")
    if part is None:
        raise SplitbenchError(mistakes[0].what)
    loaded = load_data(part)
    about = {"name": name, "train": len(loaded.train), "test": len(loaded.test), "shape": loaded.shape,
             "classes": loaded.classes, "task": loaded.task, "digest": loaded.digest}  # fmt: skip
    if json:
        print_json(about)
    else:
        for key, value in about.items():
            out().print(f"{key:<8} {value}")
