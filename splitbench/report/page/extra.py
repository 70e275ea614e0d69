"""Where tables and the scorecard come into the page: the one place to change when there are more of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from splitbench.core.errors import SplitbenchError
from splitbench.report.page.gather import Gathered
from splitbench.report.table import Table, table


@dataclass(frozen=True)
class Planned:
    """A recipe that was run into this store."""

    name: str
    scale: str
    title: str
    cells: int
    done: int


def plans(rows: Gathered) -> tuple[list[Planned], int]:
    """The recipes of a store, and how many of their cells have no row."""
    found, missing = [], 0
    for name, scale in rows.store.plans():
        try:
            plan = rows.store.plan(name, scale) or {}
            cells = set(plan["cells"])
            title = str(plan["title"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            rows.problems.append(f"the plan of {name} at scale {scale} cannot be read ({type(error).__name__})")
            continue
        done = sum(key in rows.by_key for key in cells)
        missing += len(cells) - done
        found.append(Planned(name, scale, title, len(cells), done))
    return found, missing


def tables(rows: Gathered, planned: list[Planned]) -> list[tuple[str, list[Table]]]:
    """Each recipe's tables, or where there is no recipe those of everything."""
    found = []
    for plan in planned:
        try:
            found.append(
                (f"{plan.name} at scale {plan.scale}", table(plan.name, store=rows.store.path, scale=plan.scale))
            )
        except SplitbenchError as error:
            rows.problems.append(f"no table of {plan.name} at scale {plan.scale}: {error}")
    return found or [("Everything in the store", table(store=rows.store.path))]


def scorecard(rows: Gathered) -> list[Any]:
    """The claims of the papers, judged on these rows."""
    return []
