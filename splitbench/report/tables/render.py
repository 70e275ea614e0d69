"""A table as Markdown, LaTeX, CSV, HTML or plain data. The terminal's rendering belongs to the command line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from splitbench.report.tables.html import html as html
from splitbench.report.tables.latex import latex as latex
from splitbench.report.tables.sheet import HasSheet, Shown, first_of_group

FORMATS = ("text", "markdown", "latex", "csv", "html", "json")


def markdown(shown: HasSheet) -> str:
    sheet = shown.sheet()

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(cell.splitlines()).replace("|", r"\|") for cell in cells) + " |"

    def cell(value: Shown) -> str:
        return (f"**{value.text}**" if value.bold else value.text) + value.after

    levels = range(len(sheet.corner))
    head = line([*sheet.corner, *(" ".join(part for part in column if part) for column in sheet.columns)])
    rule = "|" + " --- |" * len(sheet.corner) + (" --- |" if sheet.prose else " ---: |") * len(sheet.columns)
    body = [
        line(
            [
                *(row[level] if first_of_group(sheet.rows, i, level) else "" for level in levels),
                *map(cell, sheet.cells[i]),
            ]
        )
        for i, row in enumerate(sheet.rows)
    ]
    title = [f"**{sheet.title}**", ""] if sheet.title else []
    caption = ["", sheet.caption] if sheet.caption else []
    notes = ["", *(f"- {note}" for note in sheet.notes)] if sheet.notes else []
    return "\n".join([*title, head, rule, *body, *caption, *notes]) + "\n"


def comma_separated(shown: HasSheet) -> str:
    records = shown.sheet().records
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(records[0] if records else [])
    for record in records:
        cells = [" ".join(map(str, v)) if isinstance(v, list) else v for v in record.values()]
        # The writer does not quote a carriage return by itself, at which readers break a line.
        writer.writerow([v.replace("\r", " ") if isinstance(v, str) else v for v in cells])
    return out.getvalue()


def data(shown: HasSheet) -> dict[str, Any]:
    sheet = shown.sheet()
    return {
        "title": sheet.title,
        "caption": sheet.caption,
        **(sheet.about or {}),
        "entries": [dict(record) for record in sheet.records],
        "notes": list(sheet.notes),
    }


WRITERS: dict[str, Callable[[HasSheet], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
    "html": html,
}
