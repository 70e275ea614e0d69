"""Reconstructions as a paper's figure shows them: a line of images for each method, in the paper's order and words."""

from __future__ import annotations

from pathlib import Path

from splitbench.core.errors import SplitbenchError
from splitbench.plan.paper import Paper
from splitbench.report.drawn_rows import by_dataset, drawn_rows
from splitbench.report.figure import Panel, Row
from splitbench.report.pictures import STORED, originals_of, recovered_of
from splitbench.store.store import Store


def gallery(
    paper: Paper, *, store: Path | str | None = None, scale: str = "desk", images: int = 6
) -> tuple[list[Panel], list[str]]:
    """A panel for each data set, and what could not be shown."""
    if not 1 <= images <= STORED:
        raise SplitbenchError(f"--images: from 1 to {STORED} are kept, got {images}")
    place = Store(store)
    rows, problems = drawn_rows(paper, store=store, scale=scale)
    panels = []
    for dataset, mine in by_dataset(rows).items():
        originals, shown = None, []
        for row in mine:
            o = row.outcome
            recovered = recovered_of(place, o, problems)
            originals = originals_of(place, o, problems) if originals is None else originals
            if recovered is not None:
                value = o.ranked.get(o.ranking, float("nan"))
                shown.append(Row(row.label, recovered[:images], value, o.ranking))
        if originals is not None and shown:
            panels.append(Panel(dataset, originals[:images], tuple(shown)))
    if not panels:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise SplitbenchError(
            f"{place.path} has rows of '{paper.recipe}' at scale {scale}, but no reconstructions; "
            f"`splitbench run {paper.recipe}` makes them{told}"
        )
    return panels, problems
