"""Tables from the store: one value per cell, with its interval, and nothing left out in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.goal import GOALS
from splitbench.core.threat import KNOWLEDGE
from splitbench.plan import recipes
from splitbench.plan.axes import COSTS, heads, resolve, values_known
from splitbench.report.statistics.axis_values import value_on
from splitbench.report.statistics.best import marks
from splitbench.report.statistics.calibration import planned_bars
from splitbench.report.statistics.interval import over
from splitbench.report.statistics.ladder import falls
from splitbench.report.statistics.measured import is_about_the_task
from splitbench.report.statistics.worst import looking
from splitbench.report.tables.cell import References, TableCell, cell_of, worst_case
from splitbench.report.tables.coordinates import UNDEFENDED, Placed, of_adversary, placed
from splitbench.report.tables.paper_notes import TIE
from splitbench.report.tables.sheet import Sheet, Shown
from splitbench.report.unreadable import damage_notes
from splitbench.store.outcome import UTILITY, Outcome
from splitbench.store.store import Store

MARKED = 24  # tables at once in which the best is looked for: a request for more wants a quick overview
GROUP = ("scale", "dataset", "model", "cut", "topology", "clients", "defense", "attack", "goal")
WORST = "worst case"
TRAINING = "training"  # the column of what a training costs


@dataclass(frozen=True)
class Table:
    title: str
    caption: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], TableCell]
    notes: tuple[str, ...] = ()
    axes: tuple[str, str] = ("defense", "attack")  # of the rows and of the columns, as paths
    metric: str = ""  # of the cells; of several goals in one table, of the first
    goal: str = ""

    def entry(self, row: str, column: str) -> TableCell:
        return self.entries.get((row, column), TableCell(None))

    def _shown(self, row: str, column: str) -> Shown:
        entry = self.entry(row, column)
        return Shown(entry.text(), entry.mark == "best")

    def sheet(self) -> Sheet:
        def record(row: str, column: str, e: TableCell) -> dict[str, Any]:
            return {self.corner: row, "column": column, "mean": e.mean, "half_width_95": e.half, "n": e.n,
                    "seeds": e.seeds, "note": e.note or e.without, "uncalibrated": e.doubt,
                    "not_monotone": e.ladder, "mark": e.mark, "against": e.against, "mixture": e.mixture,
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
            about={"goal": self.goal, "metric": self.metric, "rows": self.axes[0], "columns": self.axes[1]},
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
    """The tables of a recipe, or of everything in the store: one for each goal, data set, model, cut, and so on.

    An axis is a short name or a path (see `plan/axes.py`); the metric may be a cost. Without one, the cells hold the
    metric that ranks attacks of the goal.
    """
    place = Store(store)
    outcomes, damaged = place.outcomes()
    everything = outcomes
    plan: Mapping[str, Any] | None = None
    if recipe is not None:
        plan = place.plan(recipe, scale)
        if plan is None:
            raise SplitbenchError(not_run(place, recipe, scale))
        rows, columns = rows or plan["table"].get("rows", ""), columns or plan["table"].get("columns", "")
        metric = metric or plan["table"].get("metric", "")
        order = {key: i for i, key in enumerate(plan["cells"])}
        outcomes = sorted((o for o in outcomes if o.key in order), key=lambda o: order[o.key])
    rows, columns, *conditions = (_axis(axis) for axis in (rows or "defense", columns or "attack", *(where or {})))
    wanted = dict(zip(conditions, (where or {}).values(), strict=True))
    if metric and outcomes:
        _check_metric(metric, outcomes)
    meeting = [o for o in outcomes if _meets(o, wanted)]
    if any(map(of_adversary, wanted)):  # of trainings, those that such an adversary attacked
        attacked = {o.run for o in meeting if o.kind == "attack"}
        meeting = [o for o in meeting if o.run in attacked]
    chosen = _chosen(meeting, rows, columns, metric)
    if not chosen:
        unread = "".join(f"; {note}" for note in damage_notes(place, damaged, ()))
        raise SplitbenchError(
            f"nothing to show in {place.path}; `splitbench train` or `splitbench run` makes results{unread}"
        )
    notes = damage_notes(place, damaged, chosen)
    if plan is not None and len(outcomes) < len(plan["cells"]):
        notes.append(f"{len(plan['cells']) - len(outcomes)} of {len(plan['cells'])} cells are not run yet")
    shown = {(o.dataset, o.defense, o.attack) for o in chosen}
    ladders = [o for o in everything if (o.dataset, o.defense, o.attack) in shown]
    beside = References({o.key: o for o in everything}, falls(ladders, metric), planned_bars(plan) if plan else {})
    standing = placed(chosen, rows, columns)
    if absent := len(chosen) - len({o.key for _, o in standing}):
        missing = ", ".join(axis for axis in (rows, columns) if "." in axis)
        notes.append(f"{absent} of {len(chosen)} rows have no {missing}: not shown")
    if not standing:
        raise SplitbenchError(f"no row has a value on {rows} and {columns}; `splitbench ls` lists settings")
    made = [
        _make(plan["title"] if plan else "", group, those, beside, rows, columns, metric, notes)
        for group, those in _groups(standing, rows, columns)
    ]
    return [_marked(one) for one in made] if len(made) <= MARKED else made


def _axis(axis: str) -> str:
    found = resolve(axis)
    if found == "metric":
        raise SplitbenchError("the metric is what the cells hold: choose it with --metric")
    return found


def _meets(o: Outcome, wanted: Mapping[str, str]) -> bool:
    """Components may be called by name, or by name and settings as the table prints them."""
    for axis, value in wanted.items():
        if o.kind == "train" and of_adversary(axis) and axis.partition(".")[0] not in ("attack", "knowledge"):
            continue
        label = {"defense": o.defense, "attack": o.attack}.get(axis)
        if value not in (label, value_on(o, axis)) and not _same(value, value_on(o, axis)):
            return False
    return True


def _same(one: str, other: str | None) -> bool:
    try:
        return other is not None and float(one) == float(other)
    except ValueError:
        return False


def _check_metric(metric: str, outcomes: Iterable[Outcome]) -> None:
    found = {name for o in outcomes for name in (*(s.metric for s in o.scores), *o.costs)}
    if metric not in found and metric not in values_known():
        raise SplitbenchError(f"no metric or cost named '{metric}'{nearest(metric, {*found, *values_known()})}")


def _chosen(outcomes: Sequence[Outcome], rows: str, columns: str, metric: str) -> list[Outcome]:
    """The rows a table is about: attacks, the trainings beside them, or trainings alone."""
    attacks = [o for o in outcomes if o.kind == "attack"]
    trainings = [o for o in outcomes if o.kind == "train"]
    scored = [o for o in attacks if not metric or o.score(metric) is not None]
    if metric and not scored and any(_holds(o, metric) for o in outcomes):
        counted = [o for o in attacks if metric in o.costs]
        if not any(map(of_adversary, (rows, columns))):
            return [o for o in trainings if _holds(o, metric)] or counted
        return [o for o in outcomes if o.kind == "train" or o in counted] if trainings else counted
    goals = {o.goal for o in scored}
    if metric and goals:  # a metric of one goal says nothing of another
        attacks = [o for o in attacks if o.goal in goals]
    if columns != "attack" and attacks:
        return attacks  # the task has its column among those of the attacks
    kept = {o.key for o in (*attacks, *trainings)}
    return [o for o in outcomes if o.key in kept]


def _holds(o: Outcome, metric: str) -> bool:
    return o.score(metric) is not None or metric in o.costs


def _groups(standing: Sequence[Placed], rows: str, columns: str) -> list[tuple[dict[str, str], list[Placed]]]:
    """What stands in one table. A training stands in the table of every goal that its attacks have."""
    free = [axis for axis in GROUP if axis not in (rows, columns)]
    rest = [axis for axis in free if axis != "goal"]
    goals: dict[tuple[str, ...], dict[str, None]] = {}
    for at, o in standing:
        if o.kind == "attack":
            goals.setdefault(tuple(at[axis] for axis in rest), {})[at["goal"]] = None
    groups: dict[tuple[str, ...], list[Placed]] = {}
    for at, o in standing:
        mine = goals.get(tuple(at[axis] for axis in rest), {}) if o.kind == "train" else {}
        for goal in mine or [at["goal"]]:
            there = {**at, "goal": goal}
            groups.setdefault(tuple(there[axis] for axis in free), []).append((there, o))
    return [(dict(zip(free, key, strict=True)), those) for key, those in groups.items()]


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
    beside: References,
    rows: str,
    columns: str,
    metric: str,
    notes: Sequence[str],
) -> Table:
    attacks = [(at, o) for at, o in standing if o.kind == "attack"]
    names = dict.fromkeys(metric or o.ranking for _, o in attacks or standing)
    cost = bool(metric) and not any(o.score(metric) for _, o in standing)
    task = TRAINING if cost else metric if metric and not attacks else UTILITY
    found: dict[tuple[str, str], list[Outcome]] = {}
    for at, outcome in standing:
        column = task if outcome.kind == "train" and columns == "attack" else at[columns]
        found.setdefault((at[rows], column), []).append(outcome)
    row_names = _names(rows, standing)
    column_names = _names(columns, attacks if columns == "attack" else standing)
    first = [task] if columns == "attack" and any(column == task for _, column in found) else []
    entries = {
        (row, column): cell_of(those, task if column in first and not cost else metric or those[0].ranking, beside)
        for (row, column), those in found.items()
    }
    if "attack" in (rows, columns) and attacks and not _about_task(attacks, metric, beside) and len(names) == 1:
        across = rows == "attack"
        worse = _worst_cases(standing, columns if across else rows, next(iter(names)), beside)
        entries |= {(WORST, other) if across else (other, WORST): entry for other, entry in worse.items()}
        (row_names if across else column_names).extend([WORST] if worse else [])
    reasons = [
        f"{mark}{row} × {column}: {reason}"
        for (row, column), e in entries.items()
        for mark, reason in (("", e.note or e.doubt), ("† ", e.ladder), ("", e.without))
        if reason
    ]
    versions = sorted({f"{s.metric}@{s.version}" for _, o in standing for s in o.scores if s.metric in names})
    said = ", ".join(versions) or ", ".join(COSTS.get(name, name) for name in names)
    goal = group.get("goal", "")  # none if it is an axis
    recovers = GOALS[goal].recovers if goal in GOALS else goal
    aim = f" · recovering {recovers}" if goal not in ("", "inputs") else ""
    hidden = [axis for axis, value in group.items() if axis in ("scale", "goal") or not value]
    about = " · ".join(_said(axis, value) for axis, value in group.items() if axis not in hidden)
    unit = attacks[0][1].unit if attacks else "sample"
    mixed = " · of mixed messages, against each member" if any(e.against == "member" for e in entries.values()) else ""
    caption = (
        f"{about}{aim} · scale {group.get('scale', '?')} · {said}{_interval_caption(entries.values(), unit)}{mixed}"
    )
    told = heads((rows, columns))
    return Table(
        title, caption, told[rows], tuple(row_names), (*first, *column_names), entries,
        (*notes, *dict.fromkeys(reasons)), (rows, columns), next(iter(names), metric), goal,
    )  # fmt: skip


def _about_task(attacks: Sequence[Placed], metric: str, beside: References) -> bool:
    """Of the task's utility, and of costs, there is no worst case over attacks."""
    name = metric or attacks[0][1].ranking
    scored = any(o.score(name) for _, o in attacks)
    return not scored or all(is_about_the_task(o, name, beside.twins) for _, o in attacks)


def _marked(made: Table) -> Table:
    """With the best of each column marked, if it is separable from the others: of attacks, of defenses, and so on.

    The undefended does not compete, nor do attackers that look at nothing; among attacks, nor those who look at the
    truth.
    """

    def competes(row: str, entry: TableCell) -> bool:
        if entry.mean is None or entry.doubt or entry.measured is None or row == UNDEFENDED:
            return False
        role = entry.measured.role
        return role != "floor" and (made.axes[0] != "attack" or role in ("", "attack"))

    entries = {place: e for place, e in made.entries.items() if competes(place[0], e)}
    values = {place: e.measured for place, e in entries.items() if e.measured is not None}
    places = {(row, column): {made.axes[0]: row, "column": column} for row, column in values}
    found = marks(values, places, made.axes[0])
    told = set(found.values())
    best = "the attack that recovers most" if made.axes[0] == "attack" else f"the best {made.corner}"
    return replace(
        made,
        caption=made.caption + (f" · bold: {best}" if "best" in told else ""),
        notes=((f"= {TIE}",) if "tie" in told else ()) + made.notes,
        entries={place: replace(e, mark=found.get(place, "")) for place, e in made.entries.items()},
    )


def _names(axis: str, standing: Sequence[Placed]) -> list[str]:
    """In the order they come; what an attack may know in the order of the ladder, and settings in that of numbers."""
    come: dict[str, int] = {}
    for _, o in standing:
        come.setdefault(o.attack, len(come))

    def order(one: Placed) -> tuple[int, int]:
        at, o = one
        return come[o.attack] if axis == "attack" else 0, KNOWLEDGE.index(at["knowledge"])

    ordered = sorted(standing, key=order) if axis in ("attack", "knowledge") else standing
    names = list(dict.fromkeys(at[axis] for at, _ in ordered))
    return sorted(names, key=_numbered) if "." in axis else names


def _numbered(name: str) -> tuple[int, float, str]:
    """Settings in the order of their numbers, after what has none."""
    try:
        return 1, float(name), ""
    except ValueError:
        return (0 if name == UNDEFENDED else 2), 0.0, name


def _worst_cases(standing: Sequence[Placed], other: str, metric: str, beside: References) -> dict[str, TableCell]:
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


def _interval_caption(entries: Iterable[TableCell], unit: str) -> str:
    shown = [e for e in entries if e.half is not None]
    if not shown:
        return ""
    return f" · ± 95 % over {over(((e.seeds, e.n) for e in shown), unit)}"
