"""A table as its paper lays it out: our values and the paper's side by side, and what they are worth."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.plan.axes import KINDS, check_value, heads, plain, resolve
from splitbench.plan.paper import Paper, load, of_plan
from splitbench.report.statistics.best import marks
from splitbench.report.statistics.calibration import planned_bars
from splitbench.report.statistics.interval import figures, half_width
from splitbench.report.statistics.ladder import falls
from splitbench.report.statistics.measured import Measured, Rows, is_about_the_task, planned_seeds
from splitbench.report.tables.paper_notes import NOT_PLANNED, NOT_RUN, caption_of, metrics_of, notes_of
from splitbench.report.tables.sheet import Sheet, Shown
from splitbench.report.tables.table import not_run
from splitbench.report.unreadable import damage_notes
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

Side = Literal["both", "paper", "ours"]
Place = tuple[str, ...]  # a value on each axis of the rows, or of the columns


@dataclass(frozen=True)
class Value:
    """One place of the table."""

    at: Mapping[str, str]
    paper: float | None = None
    ours: Measured | None = None
    undefended: float | None = None  # ours, the same on the twin
    half: float | None = None
    ladder: str = ""
    mixture: float | None = None  # where messages mix samples: the same against the mixture
    mark: Literal["", "best", "tie"] = ""

    def shown(self, paper_of: Paper, side: Side, undefended: bool = False) -> Shown:
        metric = self.at["metric"]
        counted = self.ours is not None and self.ours.cost  # a cost is no share
        scale, usual = (100, 1) if paper_of.in_percent(metric) and not counted else (1, 3)
        digits = paper_of.digits.get(metric, usual)
        paper = "–" if self.paper is None else figures(self.paper * scale, digits)
        if side == "paper" or self.ours is None:
            return Shown(paper)
        mean = self.ours.mean
        if mean is None:
            own = self.ours.note.split(":")[0]
        else:
            own = figures(mean * scale, digits) + ("?" if self.ours.doubt else "") + ("†" if self.ladder else "")
            own += "=" if self.mark == "tie" else ""
            own += "" if self.half is None else f" ±{figures(self.half * scale, digits)}"
        beside = f" ({figures(self.undefended * scale, digits)})" if undefended and self.undefended is not None else ""
        return Shown(own, self.mark == "best", beside + ("" if side == "ours" else f" [{paper}]"))


@dataclass(frozen=True)
class PaperTable:
    paper: Paper
    scale: str
    side: Side
    rows: tuple[Place, ...]
    columns: tuple[Place, ...]
    values: Mapping[tuple[Place, Place], Value]
    caption: str
    notes: tuple[str, ...] = ()
    undefended: bool = False  # whether the undefended twin's value is printed beside

    def label(self, axis: str, value: str) -> str:
        return self.paper.names.get(axis, {}).get(value, value)

    def sheet(self) -> Sheet:
        p = self.paper
        told = heads((*p.rows, *p.columns))

        def labels(axes: Sequence[str], place: Place) -> tuple[str, ...]:
            return tuple(self.label(axis, value) for axis, value in zip(axes, place, strict=True))

        def record(v: Value) -> dict[str, Any]:
            ours = v.ours or Measured(v.at["metric"])
            return {
                **{told[axis]: v.at[axis] for axis in (*p.rows, *p.columns)},
                **{axis: value for axis, value in v.at.items() if axis not in (*p.rows, *p.columns)},
                "paper": v.paper, "ours": ours.mean, "half_width_95": v.half, "undefended": v.undefended, "n": ours.n,
                "seeds": len(ours.seeds or ()), "mark": v.mark, "note": ours.note, "uncalibrated": ours.doubt,
                "not_monotone": v.ladder, "against": ours.against, "mixture": v.mixture, "outcomes": list(ours.keys),
            }  # fmt: skip

        values = [[self.values[row, column] for column in self.columns] for row in self.rows]
        return Sheet(
            p.title,
            self.caption,
            tuple(p.heads.get(axis, told[axis]) for axis in p.rows),
            tuple(labels(p.rows, row) for row in self.rows),
            tuple(labels(p.columns, column) for column in self.columns),
            tuple(tuple(v.shown(p, self.side, self.undefended) for v in line) for line in values),
            self.notes,
            tuple(record(v) for line in values for v in line),
            about={"recipe": p.recipe, "table": p.table, "scale": self.scale},
        )


def layout_of(recipe: str, store: Path | str | None = None, scale: str = "desk") -> Paper | None:
    """How the paper lays the table out; None where its block does not say."""
    paper = block_of(recipe, store, scale)
    return paper if paper.laid_out else None


def block_of(recipe: str, store: Path | str | None = None, scale: str = "desk") -> Paper:
    """As the recipe says, or as the store remembers where the recipe is not here."""
    try:
        return load(recipe)
    except SplitbenchError:
        if recipe in recipes.names() or Path(recipe).is_file():
            raise
        plan = Store(store).plan(recipe, scale)
        return of_plan(plan, recipe) if plan else Paper()


def paper_table(
    recipe: str | Paper,
    *,
    store: Path | str | None = None,
    scale: str = "desk",
    side: Side = "both",
    metric: str = "",
    where: Mapping[str, str] | None = None,
    undefended: bool = False,
) -> PaperTable:
    """The table of a recipe in the layout of its paper. The paper's side alone needs no store."""
    paper = recipe if isinstance(recipe, Paper) else layout_of(recipe, store, scale)
    if paper is None:
        recipes.find(str(recipe))  # raises for a name that is misspelt
        raise SplitbenchError(f"'{recipe}' has no paper's table: its `paper:` block names no rows and columns")
    paper = _narrowed(paper, metric, where or {})
    if side == "both" and paper.values is None:
        side = "ours"  # nobody printed this table before
    if side == "paper":
        return _laid_out(paper, None, {}, scale, side, [])
    place = Store(store)
    plan = place.plan(paper.recipe, scale)
    if plan is None:
        raise SplitbenchError(f"{not_run(place, paper.recipe, scale)}; --paper-only shows what the paper prints")
    everything, damaged = place.outcomes()
    wanted = set(plan["cells"])
    own = [o for o in everything if o.key in wanted]
    order = {key: i for i, key in enumerate(plan["cells"])}
    gap = NOT_RUN if len(own) < len(wanted) else NOT_PLANNED
    bars = planned_bars(plan)
    rows = Rows(sorted(own, key=lambda o: order[o.key]), everything, planned_seeds(plan), gap, bars)
    notes = damage_notes(place, damaged, own)
    if len(own) < len(wanted):
        notes.append(f"{len(wanted) - len(own)} of {len(wanted)} cells are not run yet")
    fallen: dict[str, str] = {}
    for name in metrics_of(paper):
        theirs = [o for o in own if not is_about_the_task(o, name, rows.by_key)]
        fallen |= {f"{key} {name}": why for key, why in falls(theirs, name).items()}
    made = _laid_out(paper, rows, fallen, scale, side, notes, own)
    if not undefended:
        return made
    return replace(made, undefended=True, caption=f"{made.caption} · in parentheses the same on the undefended twin")


def _narrowed(paper: Paper, metric: str, where: Mapping[str, str]) -> Paper:
    """Only what was asked for."""
    asked = {**where, **({"metric": metric} if metric else {})}
    names, fixed = dict(paper.names), dict(paper.where)
    for given, asked_for in asked.items():
        axis = resolve(given)
        if axis in KINDS and (wrong := check_value(axis, asked_for, "")):
            raise SplitbenchError(wrong[0].what)
        value = plain(asked_for)
        if axis in (*paper.rows, *paper.columns):
            names[axis] = {value: names.get(axis, {}).get(value, value)}
        else:
            fixed[axis] = value
    if metric and metric not in metrics_of(paper):
        paper = replace(paper, percent=False)
    # What the paper prints is about what it says; of anything else it has no value.
    theirs = all(fixed[axis] == value for axis, value in paper.where.items())
    return replace(paper, names=names, where=fixed, axes=paper.axes if theirs else ())


def _laid_out(
    paper: Paper,
    rows: Rows | None,
    fallen: Mapping[str, str],
    scale: str,
    side: Side,
    notes: Sequence[str],
    own: Sequence[Outcome] = (),
) -> PaperTable:
    def places(axes: Sequence[str]) -> tuple[list[Place], set[Place]]:
        """The paper's own, and others that we have, which are shown if there is a value."""
        named = [list(paper.names.get(axis, ())) for axis in axes]
        found = [[*n, *(_others(paper, rows, axis) if rows else ())] for n, axis in zip(named, axes, strict=True)]
        theirs = set(itertools.product(*named))
        return list(itertools.product(*found)), theirs

    values: dict[tuple[Place, Place], Value] = {}
    (down, named_rows), (across, named_columns) = places(paper.rows), places(paper.columns)
    for row, column in itertools.product(down, across):
        at = {**paper.where, **dict(zip(paper.rows, row, strict=True)), **dict(zip(paper.columns, column, strict=True))}
        values[row, column] = _value(at, paper, rows, fallen)
    if (
        len(paper.rows) > 1
    ):  # of all combinations, those that the paper's table has; nobody's table has only what is run
        printed = paper.values is not None or rows is None
        named_rows = {r for r in named_rows if printed and not all(paper.leaves_out(values[r, c].at) for c in across)}
    down = [r for r in down if r in named_rows or any(_run(values[r, c]) for c in across)]
    across = [c for c in across if c in named_columns or any(_run(values[r, c]) for r in down)]
    values = {(r, c): values[r, c] for r in down for c in across}
    if paper.best and rows:
        competing = {place: v.ours for place, v in values.items() if _competes(v, paper) and v.ours}
        found = marks(competing, {place: values[place].at for place in competing}, paper.best["along"])
        values = {place: replace(v, mark=found.get(place, "")) for place, v in values.items()}
    shown = list(values.values())
    caption = caption_of(paper, shown, scale, side, own)
    all_notes = (*notes, *notes_of(shown, paper)) if rows else tuple(notes)
    return PaperTable(paper, scale, side, tuple(down), tuple(across), values, caption, all_notes)


def _others(paper: Paper, rows: Rows, axis: str) -> list[str]:
    if axis == "metric":
        return []
    undefended = {"defense": "none", "protected": "0"}.get(axis)
    return [v for v in rows.on(axis, paper.where) if v not in paper.names.get(axis, ()) and v != undefended]


def _run(value: Value) -> bool:
    return value.ours is not None and bool(value.ours.keys)


def _value(at: Mapping[str, str], paper: Paper, rows: Rows | None, fallen: Mapping[str, str]) -> Value:
    if rows is None:
        return Value(at, paper.value(at))
    meant = paper.meant(at)
    ours = rows.measure(meant)
    half = None
    if ours.seeds:
        seeds = list(ours.seeds.values())
        half = half_width(np.array([s.mean for s in seeds] if len(seeds) > 1 else seeds[0].values))
    twin = rows.twin(meant).mean if ours.keys and "attack" in at else None
    keys = (f"{key} {at['metric']}" for key in ours.keys)
    ladder = "; ".join(dict.fromkeys(fallen[k] for k in keys if k in fallen))
    mixed = [
        s.value
        for key in ours.keys
        for s in rows.by_key[key].scores
        if s.metric == at["metric"] and s.against == "mixture"
    ]
    mixture = float(np.mean(mixed)) if mixed else None
    return Value(at, paper.value(at), ours, twin, half, ladder, mixture)


def _competes(value: Value, paper: Paper) -> bool:
    along = paper.best["along"]
    if value.ours is None or not value.ours.seeds or value.ours.doubt or value.at["metric"] != paper.best["metric"]:
        return False
    return along != "attack" or value.ours.role == "attack"
