"""Training losses as curves: a line for each method, a panel for each data set."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from splitbench.core.drawing import FAINT, STYLE, write
from splitbench.core.errors import SplitbenchError
from splitbench.plan.paper import Paper
from splitbench.report.curve_figure import COLOURS
from splitbench.report.drawn_rows import by_dataset, drawn_rows
from splitbench.report.histories import losses_of
from splitbench.store.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 2  # panels beside each other
DASHES = ("-", "--", "-.", ":")  # so that lines upon each other, or without colours, are told apart


@dataclass(frozen=True)
class Losses:
    """The curves of one data set."""

    dataset: str
    lines: tuple[tuple[str, tuple[float, ...]], ...]  # what each is called, and its loss after each epoch


def losses(paper: Paper, *, store: Path | str | None = None, scale: str = "desk") -> tuple[list[Losses], list[str]]:
    """A panel for each data set, and what could not be shown."""
    place = Store(store)
    rows, problems = drawn_rows(paper, store=store, scale=scale)
    panels = []
    for dataset, mine in by_dataset(rows).items():
        read = [(row.label, tuple(losses_of(place, row.outcome, problems))) for row in mine]
        problems += [f"{dataset}: no history of {label}" for label, curve in read if not curve]
        if lines := tuple((label, curve) for label, curve in read if curve):
            panels.append(Losses(dataset, lines))
    if not panels:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise SplitbenchError(f"{place.path} has no history of any training of '{paper.recipe}'{told}")
    return panels, problems


def draw_losses(path: Path, panels: Sequence[Losses], title: str = "") -> None:
    """Write a PNG or SVG file; the same panels give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    with matplotlib.rc_context(STYLE):
        size = (6.6 * across, 4.0 * down + 0.6)
        sheet = Figure(figsize=size, layout="constrained")
        grid = sheet.subplots(down, across, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _show(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        if title:
            sheet.suptitle(textwrap.fill(title, int(11 * size[0])), x=0.01, ha="left", fontsize=12)
        sheet.supxlabel("Behind each name: the loss after the last epoch.", x=0.99, ha="right", fontsize=8, color=FAINT)
        write(sheet, path)


def _show(axes: Axes, panel: Losses) -> None:
    for i, (label, curve) in enumerate(panel.lines):
        epochs = range(1, len(curve) + 1)
        mark = "o" if len(curve) == 1 else ""
        axes.plot(epochs, curve, color=COLOURS[i % len(COLOURS)], linestyle=DASHES[i % len(DASHES)], linewidth=1.6,
                  label=f"{label}  {curve[-1]:.3f}", marker=mark, markersize=4)  # fmt: skip
    longest = max(len(curve) for _, curve in panel.lines)
    if longest <= 10:
        axes.set_xticks(range(1, longest + 1))
    axes.set_title(panel.dataset)
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss on the private samples")
    axes.grid(True, axis="y", alpha=0.25)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
