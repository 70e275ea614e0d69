"""Printing tables: on a terminal, or in a format that a file can have."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from splitbench.cli._output import err, out, print_json
from splitbench.core.errors import SplitbenchError, nearest

if TYPE_CHECKING:
    from splitbench.report.tables.sheet import HasSheet

Format = Annotated[str, typer.Option("--format", help="text, markdown, latex, csv, html or json.")]


def form_of(format: str, json: bool) -> str:
    """The format asked for, which there must be."""
    from splitbench.report.tables import render

    gc.disable()  # the process ends with the answer; looking for garbage takes a third of the time it lasts
    form = "json" if json else format
    if form not in render.FORMATS:
        raise SplitbenchError(f"no format '{form}'{nearest(form, render.FORMATS)}")
    return form


def print_sheets(shown: Sequence[HasSheet], form: str) -> None:
    from splitbench.report.tables import render
    from splitbench.report.tables.sheet import first_of_group

    if form == "json":
        print_json([render.data(one) for one in shown])
        return
    if form != "text":
        typer.echo("\n".join(render.WRITERS[form](one) for one in shown), nl=False)
        return
    for one in shown:
        sheet = one.sheet()
        grid = Grid(
            title=escape(sheet.title) or None,
            caption=escape(sheet.caption),
            caption_justify="left",
            title_justify="left",
            show_lines=sheet.prose,
        )
        for name in sheet.corner:
            grid.add_column(escape(name), no_wrap=True)
        for column in sheet.columns:
            grid.add_column(escape("\n".join(column)), justify="left" if sheet.prose else "right", overflow="fold")
        for i, row in enumerate(sheet.rows):
            names = [escape(name) if first_of_group(sheet.rows, i, level) else "" for level, name in enumerate(row)]
            cells = [
                _marked(c.text, c.bold, sheet.prose) + _marked(c.after, False, sheet.prose) for c in sheet.cells[i]
            ]
            grid.add_row(*names, *cells)
        console = out()
        if not console.is_terminal and not sheet.prose:  # a file is as wide as it must be
            console.width = max(
                console.width, console.measure(grid, options=console.options.update(width=9999)).maximum
            )
        console.print(grid)
        for note in sheet.notes:
            err().print(f"  {note}", markup=False)


def _marked(text: str, bold: bool, prose: bool) -> str:
    kept = escape(text if prose else text.replace(" ", "\u00a0"))
    return f"[bold]{kept}[/]" if bold else kept
