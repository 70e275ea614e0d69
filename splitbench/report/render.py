"""A table as Markdown, LaTeX, CSV or plain data. The terminal's rendering belongs to the command line."""

from __future__ import annotations

import csv
import io
from typing import Any

from splitbench.report.table import Entry, Table

FORMATS = ("text", "markdown", "latex", "csv", "json")
_LATEX = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "–": "--",
    "†": r"$\dagger$",
}


def markdown(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    head = line([table.corner, *table.columns])
    rule = "|" + " --- |" + " ---: |" * len(table.columns)
    body = [line([row, *(table.entry(row, column).text() for column in table.columns)]) for row in table.rows]
    title = [f"**{table.title}**", ""] if table.title else []
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([*title, head, rule, *body, "", table.caption, *([""] if notes else []), *notes]) + "\n"


def latex_text(value: str) -> str:
    """As LaTeX must be told it, so that it shows the same."""
    return "".join(_LATEX.get(character, character) for character in value)


def latex(table: Table) -> str:
    def line(cells: list[str]) -> str:
        return "  " + " & ".join(map(latex_text, cells)) + r" \\"

    body = [line([row, *(table.entry(row, column).text() for column in table.columns)]) for row in table.rows]
    caption = ". ".join(part for part in (table.title, table.caption, *table.notes) if part)
    return (
        "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \caption{{{latex_text(caption)}}}",
                rf"  \begin{{tabular}}{{l{'r' * len(table.columns)}}}",
                r"  \toprule",
                line([table.corner, *table.columns]),
                r"  \midrule",
                *body,
                r"  \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
            ]
        )
        + "\n"
    )


def comma_separated(table: Table) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([table.corner, "column", "mean", "half_width_95", "n", "seeds", "note", "not_monotone", "outcomes"])
    for row in table.rows:
        for column in table.columns:
            e = table.entry(row, column)
            said = e.note or e.without
            writer.writerow([row, column, e.mean, e.half, e.n, e.seeds, said, e.ladder, " ".join(e.keys)])
    return out.getvalue()


def data(table: Table) -> dict[str, Any]:
    def plain(row: str, column: str, e: Entry) -> dict[str, Any]:
        return {table.corner: row, "column": column, "mean": e.mean, "half_width_95": e.half, "n": e.n,
                "seeds": e.seeds, "note": e.note or e.without, "not_monotone": e.ladder,
                "outcomes": list(e.keys)}  # fmt: skip

    entries = [plain(r, c, table.entry(r, c)) for r in table.rows for c in table.columns]
    return {"title": table.title, "caption": table.caption, "entries": entries, "notes": list(table.notes)}
