"""A recipe's reconstructions as one picture: originals, and below them what each attack made of their smashed data."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from splitbench.core.drawing import FAINT, STYLE, write
from splitbench.core.errors import SplitbenchError
from splitbench.report.pictures import STORED, Images, originals_of, recovered_of, shows_images
from splitbench.report.tables.table import not_run
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 2  # white pixels between images
ACROSS = 2  # panels beside each other
KNOWN = {"none": "", "family": ", its kind known", "exact": ", its secret known"}


@dataclass(frozen=True)
class Row:
    attack: str
    images: Images
    value: float  # the mean over all images that were attacked, not only those shown
    metric: str  # that ranks


@dataclass(frozen=True)
class Panel:
    """One data set under one defense, to adversaries that know equally much of it."""

    title: str
    originals: Images
    rows: tuple[Row, ...]


def figure(
    recipe: str, *, store: Path | str | None = None, scale: str = "desk", images: int = 6
) -> tuple[list[Panel], list[str]]:
    """The panels of a recipe that was run, and what could not be shown. The first of several seeds stands for all.

    Where something is defended, what is not is left out: `report` shows twins beside each other.
    """
    if not 1 <= images <= STORED:
        raise SplitbenchError(f"--images: from 1 to {STORED} are kept, got {images}")
    place = Store(store)
    plan = place.plan(recipe, scale)
    if plan is None:
        raise SplitbenchError(not_run(place, recipe, scale))
    found = [o for key in plan["cells"] if (o := place.get(key)) is not None]
    mounted = [o for o in found if o.kind == "attack" and o.status == "done" and o.role == "attack" and shows_images(o)]
    if any(o.defense != "none" for o in mounted):
        mounted = [o for o in mounted if o.defense != "none"]
    groups: dict[tuple[str, ...], dict[str, Outcome]] = {}
    for o in mounted:
        first = groups.setdefault((o.dataset, o.model, o.cut, o.defense, o.knowledge), {})
        if o.label not in first or o.seed < first[o.label].seed:
            first[o.label] = o
    problems: list[str] = []
    panels = [panel for group in groups.values() if (panel := _panel(place, list(group.values()), images, problems))]
    if not panels:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise SplitbenchError(
            f"{place.path} has no reconstructions of '{recipe}' at scale {scale}; "
            f"`splitbench run {recipe}` makes them{told}"
        )
    return panels, problems


def _panel(store: Store, outcomes: Sequence[Outcome], count: int, problems: list[str]) -> Panel | None:
    rows, originals = [], None
    names = Counter(o.attack_name for o in outcomes)
    for o in outcomes:
        recovered = recovered_of(store, o, problems)
        originals = originals_of(store, o, problems) if originals is None else originals
        if recovered is not None:
            # Settings are in the recipe, and would take the room of images.
            label = o.attack_name if names[o.attack_name] == 1 else o.label
            rows.append(Row(label, recovered[:count], o.ranked.get(o.ranking, float("nan")), o.ranking))
    if originals is None or not rows:
        return None
    one = outcomes[0]
    return Panel(f"{one.dataset} · {one.defense}{KNOWN[one.knowledge]}", originals[:count], tuple(rows))


def draw(path: Path, panels: Sequence[Panel], title: str) -> None:
    """Write a PNG or SVG file; the same panels give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    lines = max(1 + len(panel.rows) for panel in panels)
    shown = max(len(panel.originals) for panel in panels)
    with matplotlib.rc_context({**STYLE, "axes.titlepad": 10}):
        size = (across * (1.5 + 0.62 * shown), down * (0.5 + 0.62 * lines) + 0.6)
        sheet = Figure(figsize=size, layout="constrained")
        grid = sheet.subplots(down, across, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _show(axes, panel, int(13 * 0.62 * shown))
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        if title:
            sheet.suptitle(textwrap.fill(title, int(11 * size[0])), x=0.01, ha="left", fontsize=12)
        named = ", ".join(dict.fromkeys(row.metric for panel in panels for row in panel.rows))
        note = f"Beside each attack: its mean {named} over all images it was judged on."
        sheet.supxlabel(note, x=0.99, ha="right", fontsize=8, color=FAINT)
        write(sheet, path)


def _show(axes: Axes, panel: Panel, letters: int) -> None:
    height = panel.originals.shape[1] + GAP
    mosaic = np.concatenate([_strip(images) for images in (panel.originals, *(row.images for row in panel.rows))])
    axes.imshow(mosaic[:-GAP], interpolation="nearest")
    axes.set_title(textwrap.fill(panel.title, max(letters, 16)))
    names = ["original", *(f"{row.attack}  {row.value:.3f}" for row in panel.rows)]
    axes.set_yticks([height * (i + 0.5) - GAP for i in range(len(names))], names)
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _strip(images: Images) -> Images:
    """Side by side, in three colours, with white to the right of each and below."""
    coloured = np.broadcast_to(images, (*images.shape[:3], 3))
    padded = np.pad(coloured, ((0, 0), (0, GAP), (0, GAP), (0, 0)), constant_values=255)
    return np.concatenate(list(padded), axis=1)[:, :-GAP]
