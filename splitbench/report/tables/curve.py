"""A table as a curve: numbers along x, a line for each of the other axis, and what is undefended as a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from splitbench.core.errors import SplitbenchError
from splitbench.plan.axes import COSTS, heads
from splitbench.report.statistics.interval import figures
from splitbench.report.tables.paper_table import PaperTable
from splitbench.report.tables.sheet import Sheet, Shown
from splitbench.report.tables.table import Table
from splitbench.store.outcome import UTILITY


@dataclass(frozen=True)
class Point:
    x: float
    y: float | None
    half: float | None = None  # half the width of the 95 % interval
    note: str = ""  # why there is no value
    doubt: str = ""  # why the value says nothing about the defense
    n: int = 0
    seeds: int = 0
    paper: float | None = None
    keys: tuple[str, ...] = ()

    def text(self) -> str:
        if self.y is None:
            return self.note.split(":")[0] or "–"
        half = "" if self.half is None else f" ±{figures(self.half)}"
        return f"{figures(self.y)}{'?' if self.doubt else ''}{half}"


@dataclass(frozen=True)
class Curve:
    title: str
    caption: str
    x: str  # what the axes and the lines are called
    y: str
    lines: str
    series: Mapping[str, tuple[Point, ...]]  # by line, x going up
    undefended: Mapping[str, float] = field(default_factory=dict)  # by line
    notes: tuple[str, ...] = ()

    def sheet(self) -> Sheet:
        points = [(line, point) for line, several in self.series.items() for point in several]
        theirs = any(point.paper is not None for _, point in points)

        def record(line: str, p: Point) -> dict[str, Any]:
            return {self.lines: line, self.x: p.x, self.y: p.y, "half_width_95": p.half, "n": p.n, "seeds": p.seeds,
                    "paper": p.paper, "undefended": self.undefended.get(line), "note": p.note,
                    "uncalibrated": p.doubt, "outcomes": list(p.keys)}  # fmt: skip

        def cells(line: str, p: Point) -> tuple[Shown, ...]:
            printed = (Shown("–" if p.paper is None else figures(p.paper)),) if theirs else ()
            bare = (
                (Shown(figures(self.undefended[line]) if line in self.undefended else "–"),) if self.undefended else ()
            )
            return (Shown(p.text()), *bare, *printed)

        further = ([("undefended",)] if self.undefended else []) + ([("the paper's",)] if theirs else [])
        return Sheet(
            self.title,
            self.caption,
            (self.lines, self.x),
            tuple((line, f"{p.x:g}") for line, p in points),
            ((self.y,), *further),
            tuple(cells(line, p) for line, p in points),
            self.notes,
            tuple(record(line, p) for line, p in points),
            about={"layout": "curve", "x": self.x, "y": self.y, "lines": self.lines},
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def curve_of(made: Table) -> Curve:
    """Of a table whose rows are numbers; the rows of what is undefended become rules."""
    xs = [(row, x) for row in made.rows if (x := _number(row)) is not None]
    if not xs:
        there = ", ".join(row for row in made.rows if row) or "none"
        raise SplitbenchError(
            f"a curve needs numbers on its x axis, and {made.axes[0]} has {there}; choose another with --rows"
        )
    series = {}
    for column in made.columns:
        if column == UTILITY != made.metric and made.axes[1] == "attack":
            continue  # the task's is another quantity: --metric accuracy shows it
        points = []
        for row, x in sorted(xs, key=lambda one: one[1]):
            e = made.entry(row, column)
            points.append(Point(x, e.mean, e.half, e.note, e.doubt, e.n, e.seeds, None, e.keys))
        if any(p.y is not None or p.note for p in points):
            series[column] = tuple(points)
    bare = {c: e.mean for c in series if (e := made.entry("none", c)).mean is not None}
    names = heads(made.axes)
    y = COSTS.get(made.metric, made.metric)
    undefended = {line: value for line, value in bare.items() if value is not None}
    return Curve(made.title, made.caption, names[made.axes[0]], y, names[made.axes[1]], series, undefended, made.notes)


def curve_of_paper(made: PaperTable) -> Curve:
    """Of a paper's figure: ours, and beside it what the paper prints."""
    p = made.paper
    (across,), (lines,) = p.rows, p.columns
    rows: Sequence[tuple[float, tuple[str, ...]]] = sorted(
        (x, row) for row in made.rows if (x := _number(row[0])) is not None
    )
    if not rows:
        raise SplitbenchError(f"a curve needs numbers on its x axis, and no row of '{p.recipe}' has one on {across}")
    series, undefended = {}, {}
    for column in made.columns:
        points = []
        for x, row in rows:
            v = made.values[row, column]
            ours = v.ours
            if ours is None:
                points.append(Point(x, None, paper=v.paper))
                continue
            seeds = len(ours.seeds or ())
            points.append(Point(x, ours.mean, v.half, ours.note, ours.doubt, ours.n, seeds, v.paper, ours.keys))
        bases = [base for _, row in rows if (base := made.values[row, column].undefended) is not None]
        name = made.label(lines, column[0])
        series[name] = tuple(points)
        if bases and across.startswith("defense."):
            undefended[name] = sum(bases) / len(bases)
    told = heads((across, lines))
    metrics = [made.values[row, column].at["metric"] for _, row in rows for column in made.columns]
    y = ", ".join(dict.fromkeys(p.names.get("metric", {}).get(m, COSTS.get(m, m)) for m in metrics))
    return Curve(
        p.title, made.caption, p.heads.get(across, told[across]), y, p.heads.get(lines, told[lines]), series,
        undefended, made.notes,
    )  # fmt: skip
