"""splitbench table"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from splitbench.cli._output import Scale, StorePath, err, out, print_json
from splitbench.cli._profile import print_recipe
from splitbench.core.errors import SplitbenchError, nearest


def table(
    recipe: Annotated[str | None, typer.Argument(help="A recipe that was run; without one, all of the store.")] = None,
    scale: Scale = "desk",
    format: Annotated[str, typer.Option("--format", help="text, markdown, latex, csv or json.")] = "text",
    rows: Annotated[str, typer.Option(help="What the rows are (default: defense).")] = "",
    cols: Annotated[str, typer.Option(help="What the columns are (default: attack).")] = "",
    metric: Annotated[str, typer.Option(help="What the cells hold (default: ssim).")] = "",
    where: Annotated[list[str] | None, typer.Option(help="Keep only, e.g. dataset=cifar10. May be repeated.")] = None,
    store: StorePath = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print results from the store: mean and 95 % interval, every gap with its reason."""
    from splitbench.report import render
    from splitbench.report.table import table as make

    form = "json" if json else format
    if form not in render.FORMATS:
        raise SplitbenchError(f"no format '{form}'{nearest(form, render.FORMATS)}")
    wanted = {}
    for condition in where or []:
        key, equals, value = condition.partition("=")
        if not equals:
            raise SplitbenchError(f"--where takes key=value, got '{condition}'")
        wanted[key] = value
    if recipe is not None and (profiles := _of_profiles(recipe)) is not None:
        print_recipe(profiles, "", form)
        return
    tables = make(recipe, store=store, scale=scale, rows=rows, columns=cols, metric=metric, where=wanted)
    if form == "json":
        print_json([render.data(t) for t in tables])
        return
    if form != "text":
        write = {"markdown": render.markdown, "latex": render.latex, "csv": render.comma_separated}[form]
        typer.echo("\n".join(write(t) for t in tables), nl=False)
        return
    for made in tables:
        grid = Grid(title=made.title or None, caption=made.caption, caption_justify="left", title_justify="left")
        grid.add_column(made.corner, no_wrap=True)
        for column in made.columns:
            grid.add_column(column, justify="right")
        for row in made.rows:
            grid.add_row(row, *(made.entry(row, column).text().replace(" ", "\u00a0") for column in made.columns))
        out().print(grid)
        for note in made.notes:
            err().print(f"  {note}")


def _of_profiles(recipe: str) -> Path | None:
    """The file of a recipe whose numbers are counted and not stored."""
    from splitbench.bench import recipes

    try:
        path = recipes.find(recipe)[1]
    except SplitbenchError:
        return None  # the store may still know it
    return path if recipes.counts_only(path) else None
