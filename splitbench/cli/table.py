"""splitbench table"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath
from splitbench.cli._profile import print_recipe
from splitbench.cli._sheet import Format, form_of, print_sheets
from splitbench.core.errors import SplitbenchError

if TYPE_CHECKING:
    from splitbench.report.tables.paper_table import Side
    from splitbench.report.tables.sheet import HasSheet


def table(
    recipe: Annotated[str | None, typer.Argument(help="A recipe that was run; without one, all of the store.")] = None,
    scale: Scale = "desk",
    format: Format = "text",
    rows: Annotated[
        str, typer.Option(help="What the rows are: a name or a path (default: as in the paper, or defense).")
    ] = "",
    cols: Annotated[
        str, typer.Option(help="What the columns are, likewise, e.g. defense.seal.omega (default: attack).")
    ] = "",
    metric: Annotated[
        str, typer.Option(help="What the cells hold: a metric or a cost (default: as in the paper, or what ranks).")
    ] = "",
    curve: Annotated[
        bool, typer.Option("--curve", help="As x and y: rows must be numbers, a line per column.")
    ] = False,
    where: Annotated[list[str] | None, typer.Option(help="Keep only, e.g. dataset=cifar10. May be repeated.")] = None,
    paper_only: Annotated[
        bool, typer.Option("--paper-only", help="Only what the paper prints; needs no results.")
    ] = False,
    ours_only: Annotated[bool, typer.Option("--ours-only", help="Only our values, in the paper's layout.")] = False,
    undefended: Annotated[bool, typer.Option("--undefended", help="Add the undefended twin's value to ours.")] = False,
    all: Annotated[
        bool, typer.Option("--all", help="Every recipe that was run, and an index page; with --write.")
    ] = False,
    write: Annotated[str, typer.Option("--write", help="With --all: the folder to write Markdown and LaTeX to.")] = "",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Print results: a recipe in its paper's own layout, ours and the paper's values side by side, or any question.

    Mean and 95 % interval; every gap with its reason. --rows, --cols and --where ask a question of their own; an axis
    is a name (dataset) or a path into the recipe (training.epochs, threat.rounds, defense.seal.omega).
    """
    form = form_of(format, json)
    if all or write:
        _write_all(recipe, all, write, store)
        return
    if paper_only and ours_only:
        raise SplitbenchError("--paper-only and --ours-only leave nothing; give one of them")
    counted = _counted(recipe) if recipe is not None else None
    if counted is not None:
        print_recipe(counted, "", form)
        return
    made = tables(recipe, scale, rows, cols, metric, where, store, paper_only, ours_only, undefended, curve)
    print_sheets(made, form)


def _counted(recipe: str) -> Path | None:
    """The file of a recipe whose numbers are counted and not stored."""
    from splitbench.plan import recipes

    try:
        path = recipes.find(recipe)[1]
    except SplitbenchError:
        return None  # the store may still know it
    return path if recipes.counts_only(path) else None


def _write_all(recipe: str | None, all: bool, write: str, store: str | None) -> None:
    from splitbench.report.tables.pages import pages

    if not (all and write) or recipe is not None:
        raise SplitbenchError("--all and --write FOLDER go together, without a recipe: they write every table")
    for name, text in pages(store).items():
        path = Path(write) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        typer.echo(path)


def tables(
    recipe: str | None,
    scale: str,
    rows: str = "",
    cols: str = "",
    metric: str = "",
    where: Sequence[str] | None = None,
    store: str | None = None,
    paper_only: bool = False,
    ours_only: bool = False,
    undefended: bool = False,
    curve: bool = False,
) -> Sequence[HasSheet]:
    from splitbench.plan import recipes
    from splitbench.report.tables.curve import curve_of, curve_of_paper
    from splitbench.report.tables.paper_table import layout_of, paper_table
    from splitbench.report.tables.table import table as make

    wanted = {}
    for condition in where or []:
        key, equals, value = condition.partition("=")
        if not equals:
            raise SplitbenchError(f"--where takes key=value, got '{condition}'")
        wanted[key] = value
    if (paper_only or ours_only or undefended) and (recipe is None or rows or cols):
        raise SplitbenchError(
            "--paper-only, --ours-only and --undefended are about the table of a recipe, in its paper's layout"
        )
    if recipe is not None and recipe.endswith((".yaml", ".yml")):
        named, file = recipes.find(recipe)
        recipe = str(file) if named not in recipes.names() else named
    layout = layout_of(recipe, store, scale) if recipe is not None and not (rows or cols) else None
    if layout is not None or paper_only or ours_only or undefended:
        side: Side = "paper" if paper_only else "ours" if ours_only else "both"
        asked = layout or str(recipe)
        made = paper_table(
            asked, store=store, scale=scale, side=side, metric=metric, where=wanted, undefended=undefended
        )
        if curve and made.paper.layout != "curve":
            raise SplitbenchError(f"the paper has a table here, no curve; choose the x axis of '{recipe}' with --rows")
        return [curve_of_paper(made)] if made.paper.layout == "curve" else [made]
    shown = make(recipe, store=store, scale=scale, rows=rows, columns=cols, metric=metric, where=wanted)
    return [curve_of(one) for one in shown] if curve else shown
