"""Where tables and the scorecard come into the page: the one place to change when there are more of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from splitbench.core.errors import SplitbenchError
from splitbench.report.claims.judge import Scored, claims
from splitbench.report.page.gather import Gathered
from splitbench.report.tables.pages import shown
from splitbench.report.tables.sheet import HasSheet, Sheet, spans
from splitbench.report.tables.table import table


@dataclass(frozen=True)
class Planned:
    """A recipe that was run into this store."""

    name: str
    scale: str
    title: str
    cells: int
    done: int


@dataclass(frozen=True)
class Head:
    text: str
    across: int = 1
    down: int = 1


def plans(rows: Gathered) -> tuple[list[Planned], int]:
    """The recipes of a store, and how many of their cells have no row."""
    found, planned = [], set()
    for name, scale in rows.store.plans():
        try:
            plan = rows.store.plan(name, scale) or {}
            cells, title = set(plan["cells"]), str(plan["title"])
        except (OSError, ValueError, KeyError, TypeError, SplitbenchError) as error:
            rows.problems.append(f"the plan of {name} at scale {scale} cannot be read ({type(error).__name__})")
            continue
        planned |= cells
        found.append(Planned(name, scale, title, len(cells), sum(key in rows.by_key for key in cells)))
    return found, sum(key not in rows.by_key for key in planned)


def tables(rows: Gathered, planned: list[Planned]) -> list[tuple[str, list[Sheet]]]:
    """Each recipe's table, in its paper's layout where it has one; without a recipe, tables of everything."""
    found = []
    for plan in planned:
        try:
            found.append((f"{plan.name} at scale {plan.scale}", _sheets(rows, _of(rows, plan))))
        except SplitbenchError as error:
            rows.problems.append(f"no table of {plan.name} at scale {plan.scale}: {error}")
    return found or [("Everything in the store", _sheets(rows, table(store=rows.store.path)))]


def _of(rows: Gathered, plan: Planned) -> list[HasSheet]:
    return [*shown(plan.name, rows.store.path, plan.scale)]


def _sheets(rows: Gathered, several: Sequence[HasSheet]) -> list[Sheet]:
    """Without notes on damage, which the page reports once, and which name a folder of this machine."""
    made = [one.sheet() for one in several]
    told = set(rows.problems)
    return [
        replace(s, notes=tuple(n for n in s.notes if n not in told and str(rows.store.path) not in n)) for s in made
    ]


def scorecard(rows: Gathered, planned: list[Planned]) -> tuple[list[Scored], int]:
    """What the papers claim, judged on these rows, and how many of the claims nobody has run."""
    scored: list[Scored] = []
    for scale in dict.fromkeys(plan.scale for plan in planned):
        try:
            scored += claims(store=rows.store.path, scale=scale)[0]
        except SplitbenchError as error:
            rows.problems.append(f"no scorecard at scale {scale}: {error}")
    run = [s for s in scored if s.verdict != "not run" or len(s.counts) > 1]
    return run, len(scored) - len(run)


def heads(sheet: Sheet) -> list[list[Head]]:
    """The lines above a table: each name once, over the columns that share it."""
    levels = len(sheet.columns[0]) if sheet.columns else 1
    lines = [[Head(name, count) for name, count in spans(sheet.columns, level)] for level in range(levels)]
    lines[0] = [*(Head(name, 1, levels) for name in sheet.corner), *lines[0]]
    return lines


def sides(sheet: Sheet) -> list[list[Head]]:
    """The names before each row: each once, beside the rows that share it."""
    lines: list[list[Head]] = [[] for _ in sheet.rows]
    for level in range(len(sheet.corner)):
        at = 0
        for name, count in spans(sheet.rows, level):
            lines[at].append(Head(name, 1, count))
            at += count
    return lines
