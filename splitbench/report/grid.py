"""A plain grid of text as Markdown, LaTeX or CSV: for what is not a table of results."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from splitbench.report.render import latex_text

FORMATS = ("text", "markdown", "latex", "csv", "json")


@dataclass(frozen=True)
class Grid:
    """The first column is text, the others are numbers, as they are to be read."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        def line(cells: tuple[str, ...]) -> str:
            return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

        rule = "|" + " --- |" + " ---: |" * (len(self.columns) - 1)
        notes = [f"- {note}" for note in self.notes]
        return "\n".join(
            [
                f"**{self.title}**",
                "",
                line(self.columns),
                rule,
                *map(line, self.rows),
                *([""] if notes else []),
                *notes,
                "",
            ]
        )

    def latex(self) -> str:
        def line(cells: tuple[str, ...]) -> str:
            return "  " + " & ".join(map(latex_text, cells)) + r" \\"

        caption = ". ".join((self.title, *self.notes))
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \caption{{{latex_text(caption)}}}",
                rf"  \begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"  \toprule",
                line(self.columns),
                r"  \midrule",
                *map(line, self.rows),
                r"  \bottomrule",
                r"  \end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def comma_separated(self) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()
