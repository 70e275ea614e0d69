"""Curves as a picture: a panel each, a line with error bars for each name, rules for what is undefended."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from splitbench.core.drawing import FAINT, STYLE, write
from splitbench.report.tables.curve import Curve
from splitbench.report.tables.table import WORST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 2  # panels beside each other
LOG_FROM = 30.0  # the ratio of ends beyond which x is logarithmic
COLOURS = ("#0b5fa5", "#c4501b", "#2e7d4f", "#7a4fa3", "#8a6d00", "#b0305c", "#3f7f8c", "#555555")
MARKS = "osD^vPX*"


def draw_curves(path: Path, curves: Sequence[Curve], title: str = "") -> None:
    """Write a PNG or SVG file; the same curves give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    across = min(ACROSS, len(curves))
    down = -(-len(curves) // across)
    with matplotlib.rc_context(STYLE):
        size = (6.2 * across, 3.9 * down + 0.6)
        sheet = Figure(figsize=size, layout="constrained")
        grid = sheet.subplots(down, across, squeeze=False)
        for axes, curve in zip(grid.flat, curves, strict=False):
            _show(axes, curve, 56)
        for axes in grid.flat[len(curves) :]:
            axes.set_axis_off()
        if title:
            sheet.suptitle(textwrap.fill(title, int(11 * size[0])), x=0.01, ha="left", fontsize=12)
        halves = any(p.half is not None for c in curves for several in c.series.values() for p in several)
        doubts = any(p.doubt for c in curves for several in c.series.values() for p in several)
        said = ["Bars: 95 %."] * halves + ["Open marks: uncalibrated."] * doubts
        said += ["Dashed: undefended."] * any(c.undefended for c in curves)
        said += ["Crosses: the paper's."] * any(
            p.paper is not None for c in curves for several in c.series.values() for p in several
        )
        sheet.supxlabel(" ".join(said), x=0.99, ha="right", fontsize=8, color=FAINT)
        write(sheet, path)


def _show(axes: Axes, curve: Curve, letters: int) -> None:
    for i, (line, several) in enumerate(curve.series.items()):
        colour, mark = COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]
        known = [(p, p.y) for p in several if p.y is not None]
        xs, ys = [p.x for p, _ in known], [y for _, y in known]
        if line == WORST:  # as a band below the others, one of which it often follows
            axes.plot(xs, ys, color=FAINT, linewidth=7, alpha=0.35, solid_capstyle="round", zorder=1, label=line)
            continue
        axes.plot(xs, ys, color=colour, linewidth=1.5)
        axes.plot([], [], color=colour, marker=mark, markersize=5, linewidth=1.5, label=line)  # for the legend
        for p, y in known:
            face = "white" if p.doubt else colour
            axes.errorbar(p.x, y, yerr=p.half, color=colour, marker=mark, markerfacecolor=face, markersize=5,
                          capsize=3, linestyle="none", elinewidth=1)  # fmt: skip
        printed = [(p.x, p.paper) for p in several if p.paper is not None]
        if printed:
            axes.plot(*zip(*printed, strict=True), color=colour, marker="x", linestyle=":", linewidth=1)
        if line in curve.undefended:
            axes.axhline(curve.undefended[line], color=colour, linestyle="--", linewidth=1, alpha=0.7)
    places = sorted({p.x for several in curve.series.values() for p in several})
    if places[0] > 0 and len(places) > 2 and places[-1] / places[0] >= LOG_FROM:
        axes.set_xscale("log")
    if len(places) <= 8:
        axes.set_xticks(places, [f"{x:g}" for x in places], minor=False)
        axes.set_xticks([], minor=True)
    axes.set_title(textwrap.fill(curve.caption.partition(" · scale")[0], letters), fontsize=9)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    axes.grid(True, axis="y", alpha=0.25)
    if len(curve.series) > 1 or next(iter(curve.series), "") != curve.y:
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
