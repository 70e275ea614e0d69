"""Tables from the store: one value a cell, with its interval, and nothing left out in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from splitbench.core import registry
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.threat import KNOWLEDGE
from splitbench.plan import recipes
from splitbench.report.statistics.best import marks
from splitbench.report.statistics.interval import over
from splitbench.report.statistics.ladder import falls
from splitbench.report.statistics.worst import looking
from splitbench.report.tables.cell import Beside, Entry, entry_of, worst_case
from splitbench.report.tables.coordinates import AXES, Placed, placed
from splitbench.report.tables.paper_notes import TIE
from splitbench.report.tables.sheet import Sheet, Shown
from splitbench.report.unreadable import damage_notes
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

UTILITY = ("accuracy", "mcc")
MARKED = 24  # tables at once in which the best is looked for: who asks for more wants an overview, and soon
GROUP = ("scale", "dataset", "model", "cut", "topology", "clients", "defense", "attack")
WORST = "worst case"


@dataclass(frozen=True)
class Table:
    title: str
    caption: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], Entry]
    notes: tuple[str, ...] = ()

    def entry(self, row: str, column: str) -> Entry:
        return self.entries.get((row, column), Entry(None))

    def _shown(self, row: str, column: str) -> Shown:
        entry = self.entry(row, column)
        return Shown(entry.text(), entry.mark == "best")

    def sheet(self) -> Sheet:
        def record(row: str, column: str, e: Entry) -> dict[str, Any]:
            return {self.corner: row, "column": column, "mean": e.mean, "half_width_95": e.half, "n": e.n,
                    "seeds": e.seeds, "note": e.note or e.without, "not_monotone": e.ladder, "mark": e.mark,
                    "outcomes": list(e.keys)}  # fmt: skip

        return Sheet(
            self.title,
            self.caption,
            (self.corner,),
            tuple((row,) for row in self.rows),
            tuple((column,) for column in self.columns),
            tuple(tuple(self._shown(row, column) for column in self.columns) for row in self.rows),
            self.notes,
            tuple(record(row, column, self.entry(row, column)) for row in self.rows for column in self.columns),
        )


def table(
    recipe: str | None = None,
    *,
    store: Path | str | None = None,
    scale: str = "desk",
    rows: str = "",
    columns: str = "",
    metric: str = "",
    where: Mapping[str, str] | None = None,
) -> list[Table]:
    """The tables of a recipe, or of everything in the store: one for each data set, model, cut, topology and scale."""
    place = Store(store)
    outcomes, damaged = place.outcomes()
    everything = outcomes
    planned: list[str] | None = None
    title = ""
    if recipe is not None:
        plan = place.plan(recipe, scale)
        if plan is None:
            raise SplitbenchError(not_run(place, recipe, scale))
        planned, title = plan["cells"], plan["title"]
        rows, columns = rows or plan["table"].get("rows", ""), columns or plan["table"].get("columns", "")
        metric = metric or plan["table"].get("metric", "")
        order = {key: i for i, key in enumerate(planned)}
        outcomes = sorted((o for o in outcomes if o.key in order), key=lambda o: order[o.key])
    rows, columns, metric = rows or "defense", columns or "attack", metric or "ssim"
    for axis in (rows, columns, *(where or {})):
        if axis not in (*AXES, "scale"):
            raise SplitbenchError(f"a table has no '{axis}' to go by{nearest(axis, AXES)}")
    scored = {score.metric for o in outcomes for score in o.scores}
    if outcomes and metric not in scored and metric not in registry.names("metrics"):
        raise SplitbenchError(f"no metric named '{metric}'{nearest(metric, {*scored, *registry.names('metrics')})}")
    chosen = [o for o in outcomes if all(str(getattr(o, k)) == v for k, v in (where or {}).items())]
    attacks = [o for o in chosen if o.kind == "attack"]
    if columns != "attack" and attacks:
        chosen = attacks  # the task has its column among those of the attacks
    if not chosen:
        unread = "".join(f"; {note}" for note in damage_notes(place, damaged, ()))
        raise SplitbenchError(
            f"nothing to show in {place.path}; `splitbench train` or `splitbench run` makes results{unread}"
        )
    notes = damage_notes(place, damaged, chosen)
    if planned is not None and len(outcomes) < len(planned):
        notes.append(f"{len(planned) - len(outcomes)} of {len(planned)} cells are not run yet")
    shown = {(o.dataset, o.defense, o.attack) for o in chosen}
    ladders = [o for o in everything if (o.dataset, o.defense, o.attack) in shown]
    beside = Beside({o.key: o for o in everything}, falls(ladders, metric))
    groups: dict[tuple[str, ...], list[Placed]] = {}
    free = [axis for axis in GROUP if axis not in (rows, columns)]
    for at, outcome in placed(chosen, rows, columns):
        groups.setdefault(tuple(at[axis] for axis in free), []).append((at, outcome))
    made = [
        _make(title, dict(zip(free, g, strict=True)), group, beside, rows, columns, metric, notes)
        for g, group in groups.items()
    ]
    return [_marked(one) for one in made] if len(made) <= MARKED else made


def not_run(store: Store, recipe: str, scale: str) -> str:
    plans = store.plans()
    scales = [s for name, s in plans if name == recipe]
    if scales:
        return f"'{recipe}' was run here at scale {', '.join(scales)}, not {scale}; choose it with --scale"
    known = {name for name, _ in plans}
    if recipe in recipes.names() or Path(recipe).is_file():
        return f"no results of '{recipe}' in {store.path}; `splitbench run {recipe}` makes them" + (
            nearest(recipe, known) if plans else ""
        )
    near = nearest(recipe, {*known, *recipes.names()})
    return f"no results of '{recipe}' in {store.path}, and no recipe of that name{near}"


def _make(
    title: str,
    group: Mapping[str, str],
    standing: Sequence[Placed],
    beside: Beside,
    rows: str,
    columns: str,
    metric: str,
    notes: Sequence[str],
) -> Table:
    found: dict[tuple[str, str], list[Outcome]] = {}
    for at, outcome in standing:
        column = UTILITY[0] if outcome.kind == "train" else at[columns]
        found.setdefault((at[rows], column), []).append(outcome)
    row_names = _names(rows, standing)
    column_names = _names(columns, [(at, o) for at, o in standing if o.kind == "attack"])
    first = [UTILITY[0]] if any(column == UTILITY[0] for _, column in found) else []
    entries = {
        (row, column): entry_of(group_of, UTILITY[0] if column in first else metric, beside)
        for (row, column), group_of in found.items()
    }
    if "attack" in (rows, columns):
        across = rows == "attack"
        worse = _worst_cases(standing, columns if across else rows, metric, beside)
        entries |= {(WORST, other) if across else (other, WORST): entry for other, entry in worse.items()}
        (row_names if across else column_names).extend([WORST] if worse else [])
    reasons = [
        f"{mark}{row} × {column}: {reason}"
        for (row, column), e in entries.items()
        for mark, reason in (("", e.note or e.doubt), ("† ", e.ladder), ("", e.without))
        if reason
    ]
    versions = sorted({f"{s.metric}@{s.version}" for _, o in standing for s in o.scores if s.metric == metric})
    place = " · ".join(_said(axis, value) for axis, value in group.items() if axis != "scale" and value)
    interval = _interval_caption(entries.values())
    caption = f"{place} · scale {group.get('scale', '?')} · {', '.join(versions) or metric}{interval}"
    return Table(
        title, caption, rows, tuple(row_names), (*first, *column_names), entries, (*notes, *dict.fromkeys(reasons))
    )


def _marked(made: Table) -> Table:
    """With the best of each column told, where it can be told from the others: of attacks, or of defenses, and so on.

    The undefended does not compete, nor do attackers that look at nothing; among attacks, nor those who look at the
    truth.
    """

    def competes(row: str, entry: Entry) -> bool:
        if entry.mean is None or entry.doubt or entry.measured is None or (made.corner, row) == ("defense", "none"):
            return False
        role = registry.declared("attacks", entry.attack, "role") if entry.attack else ""
        return role != "floor" and (made.corner != "attack" or role in ("", "attack"))

    entries = {place: e for place, e in made.entries.items() if competes(place[0], e)}
    values = {place: e.measured for place, e in entries.items() if e.measured is not None}
    places = {(row, column): {made.corner: row, "column": column} for row, column in values}
    found = marks(values, places, made.corner)
    told = set(found.values())
    best = "the attack that recovers most" if made.corner == "attack" else f"the best {made.corner}"
    return replace(
        made,
        caption=made.caption + (f" · bold: {best}" if "best" in told else ""),
        notes=((f"= {TIE}",) if "tie" in told else ()) + made.notes,
        entries={place: replace(e, mark=found.get(place, "")) for place, e in made.entries.items()},
    )


def _names(axis: str, standing: Sequence[Placed]) -> list[str]:
    """In the order they come, and what an attack may know of a defense in the order of the ladder."""
    come: dict[str, int] = {}
    for _, o in standing:
        come.setdefault(o.attack, len(come))

    def order(one: Placed) -> tuple[int, int]:
        at, o = one
        return come[o.attack] if axis == "attack" else 0, KNOWLEDGE.index(at["knowledge"])

    ordered = sorted(standing, key=order) if axis in ("attack", "knowledge") else standing
    return list(dict.fromkeys(at[axis] for at, _ in ordered))


def _worst_cases(standing: Sequence[Placed], other: str, metric: str, beside: Beside) -> dict[str, Entry]:
    """The worst case at each place of the other axis, if there are two attacks to choose from."""
    counted = {o.key for o in looking(o for _, o in standing)}
    names = list(dict.fromkeys(at["attack"] for at, o in standing if o.key in counted))
    if len(names) < 2:
        return {}
    runs: dict[str, dict[str, list[Placed]]] = {}
    for at, o in standing:
        if o.key in counted:
            runs.setdefault(at[other], {}).setdefault(o.run, []).append((at, o))
    return {place: worst_case(list(by_run.values()), names, metric, beside) for place, by_run in runs.items()}


def _said(axis: str, value: str) -> str:
    if axis == "defense":
        return f"defense {value}"
    if axis != "clients":
        return value
    return "1 client" if value == "1" else f"{value} clients"


def _interval_caption(entries: object) -> str:
    shown = [e for e in entries if e.half is not None]  # type: ignore[attr-defined]
    if not shown:
        return ""
    return f" · ± 95 % over {over((e.seeds, e.n) for e in shown)}"
