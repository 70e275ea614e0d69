"""The rows of a figure that its `paper:` block describes: which outcome stands on each line, and what it is called."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

from splitbench.core.errors import SplitbenchError
from splitbench.plan.paper import Paper
from splitbench.report.statistics.measured import Rows, is_about_the_adversary
from splitbench.report.tables.table import not_run
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store


@dataclass(frozen=True)
class Drawn:
    """One line of a figure."""

    dataset: str
    label: str
    outcome: Outcome


def drawn_rows(paper: Paper, *, store: Path | str | None = None, scale: str = "desk") -> tuple[list[Drawn], list[str]]:
    """One for each place on the paper's `rows`, and each data set, in the paper's order; and what is not there.

    The first of several seeds stands for all.
    """
    place = Store(store)
    plan = place.plan(paper.recipe, scale)
    if plan is None:
        raise SplitbenchError(not_run(place, paper.recipe, scale))
    everything, _ = place.outcomes()
    wanted = set(plan["cells"])
    rows = Rows([o for o in everything if o.key in wanted], everything)
    attacked = any(map(is_about_the_adversary, (*paper.where, *paper.rows)))
    found: list[Drawn] = []
    problems: list[str] = []
    for values in itertools.product(*(paper.names.get(axis, {}) for axis in paper.rows)):
        at = {**paper.where, **dict(zip(paper.rows, values, strict=True))}
        label = " ".join(word for axis, v in zip(paper.rows, values, strict=True) if (word := paper.names[axis][v]))
        mine = [o for o in rows.find(paper.meant(at)) if (o.kind == "attack") == attacked]
        problems += [f"{label}: {o.status}: {o.reason}" for o in mine if o.status != "done"]
        first: dict[str, Outcome] = {}
        for o in sorted((o for o in mine if o.status == "done"), key=lambda o: o.seed):
            first.setdefault(o.dataset, o)
        found += [Drawn(dataset, label, o) for dataset, o in first.items()]
    if not found:
        told = "".join(f"\n  {problem}" for problem in problems)
        raise SplitbenchError(
            f"{place.path} has nothing that '{paper.recipe}' shows at scale {scale}; "
            f"`splitbench run {paper.recipe}` makes it{told}"
        )
    return found, problems


def by_dataset(rows: list[Drawn]) -> dict[str, list[Drawn]]:
    return {
        dataset: [row for row in rows if row.dataset == dataset] for dataset in dict.fromkeys(r.dataset for r in rows)
    }
