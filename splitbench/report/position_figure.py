"""The similarity of position embeddings as a picture: for each place a map of how alike all others are to it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splitbench.core.drawing import FAINT, STYLE, write
from splitbench.core.errors import SplitbenchError
from splitbench.plan.paper import Paper
from splitbench.report.drawn_rows import drawn_rows
from splitbench.report.positions import Similarity, similarity_of
from splitbench.store.store import Store

GAP = 1  # places left white between maps


@dataclass(frozen=True)
class Maps:
    """Of one trained network."""

    title: str
    similarity: Similarity


def positions(paper: Paper, *, store: Path | str | None = None, scale: str = "desk") -> tuple[list[Maps], list[str]]:
    """A panel for each line of the block, and what could not be shown."""
    place = Store(store)
    rows, problems = drawn_rows(paper, store=store, scale=scale)
    panels = []
    for row in rows:
        found = similarity_of(place, row.outcome, problems)
        if found is None:
            problems.append(f"{row.dataset}, {row.label}: no position embeddings that were learned")
        else:
            panels.append(Maps(f"{row.dataset}, {row.label}", found))
    if not panels:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise SplitbenchError(f"{place.path} has no position embeddings of '{paper.recipe}' at scale {scale}{told}")
    return panels, problems


def told(panel: Maps) -> str:
    s = panel.similarity
    return f"mean |cosine| {s.mean:.3f}, of neighbours {s.neighbours:.3f}"


def draw_positions(path: Path, panels: Sequence[Maps], title: str = "") -> None:
    """Write a PNG or SVG file; the same panels give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        size = (4.6 * len(panels) + 0.9, 5.6)
        sheet = Figure(figsize=size, layout="constrained")
        grid = sheet.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            image = axes.imshow(mosaic(panel.similarity), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axes.set_title(f"{panel.title}\n{told(panel)}", fontsize=10)
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_visible(False)
        sheet.colorbar(image, ax=list(grid), shrink=0.7, label="cosine similarity")
        if title:
            sheet.suptitle(textwrap.fill(title, int(11 * size[0])), x=0.01, ha="left", fontsize=12)
        note = "Each small map: one place of the grid, and how alike the embedding of every other place is to its own."
        sheet.supxlabel(textwrap.fill(note, int(15 * size[0])), x=0.99, ha="right", fontsize=8, color=FAINT)
        write(sheet, path)


def mosaic(similarity: Similarity) -> np.ndarray:
    """The map of every place, where that place is; nothing between them."""
    rows, columns = similarity.grid
    maps = similarity.cosines.reshape(rows, columns, rows, columns)
    apart = np.pad(maps, ((0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=np.nan)
    return apart.transpose(0, 2, 1, 3).reshape(rows * (rows + GAP), columns * (columns + GAP))[:-GAP, :-GAP]
