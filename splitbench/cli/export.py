"""splitbench export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath, print_json


def export(
    what: Annotated[str, typer.Argument(help="A run (id, prefix or latest), or a recipe that was run.")] = "latest",
    to: Annotated[str, typer.Option("--to", help="The zip to write (default: named for it, in this folder).")] = "",
    scale: Scale = "desk",
    rows_only: Annotated[bool, typer.Option("--rows-only", help="Of a recipe: leave trained networks out.")] = False,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Pack a run or a table into a zip that another person checks with `splitbench verify`."""
    from splitbench.report.run_rows import find_run, rows_of
    from splitbench.report.tables.pages import markdown_of
    from splitbench.store.archive import export_run, export_table
    from splitbench.store.store import Store

    place = Store(store)
    outcomes, _ = place.outcomes()
    if (what, scale) in place.plans():
        target = Path(to or f"{what.replace('/', '-')}-{scale}.zip")
        pages = {"table.md": markdown_of(place.path, what, scale)}
        made = export_table(what, scale, outcomes, place, target, pages, not rows_only)
    else:
        run = find_run(outcomes, what, place)
        made = export_run(run, rows_of(outcomes, run), place, Path(to or f"{run}.zip"))
    if json:
        print_json({**vars(made), "path": str(made.path)})
        return
    typer.echo(f"{made.path}: {made.kind} {made.what}, {made.files} files, {made.bytes / 1e6:.1f} MB")
    for name in made.missing:
        typer.echo(f"  not in the store: {name}")
    typer.echo(f"next: splitbench verify {made.path} --expect {made.digest[:16]}")
