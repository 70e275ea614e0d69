"""The rows that answer a question: everything at one place of a table, seed by seed and sample by sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from splitbench.plan.axes import part_of
from splitbench.report.statistics.axis_values import value_on
from splitbench.report.statistics.calibration import NO_BARS, Bars, doubt, utility_doubt
from splitbench.store.outcome import Outcome, Score

# Axes that only an attack stands on.
ADVERSARY = ("attack", "knowledge", "goal", "party")


def is_about_the_adversary(axis: str) -> bool:
    """Whether only an attack stands there."""
    return axis in ADVERSARY or axis.partition(".")[0] in ("attack", "threat", "effort")


@dataclass(frozen=True)
class Seed:
    """What one seed gave. `values` are empty where only the mean is known."""

    mean: float
    n: int
    values: tuple[float, ...]
    images: tuple[int, ...]
    source: str  # the same source is the same measurement

    @classmethod
    def of(cls, score: Score, images: tuple[int, ...], source: str) -> Seed:
        each = score.values if len(score.values) == len(images) else ()
        return cls(score.value, score.n, each, images if each else (), source)


@dataclass(frozen=True)
class Reading:
    """One value of one row: a metric with its direction as the row has it, or a cost, of which less is better."""

    seed: Seed
    leaks_when: str = "high"  # of utility: good when
    utility: bool = False
    cost: bool = False
    against: str = ""

    @classmethod
    def of(cls, score: Score, outcome: Outcome, utility: bool = False) -> Reading:
        seed = Seed.of(score, outcome.about(score), outcome.key)
        return cls(seed, score.leaks_when, utility or score.utility, against=score.against)


def is_about_the_task(outcome: Outcome, metric: str, rows: Mapping[str, Outcome]) -> bool:
    """Whether a metric of a row is the task's: of a training always, of an attack if its training has it.

    An attack that recovers labels is scored in the same metrics as the task, and then they are the attack's own.
    """
    if outcome.kind == "train":
        return True
    if outcome.goal in ("labels", "attributes"):
        return False
    trained = rows.get(outcome.run)
    return f"{metric}_under_attack" in outcome.costs or (trained is not None and trained.score(metric) is not None)


def reading_of(outcome: Outcome, metric: str, rows: Mapping[str, Outcome]) -> Reading | None:
    """What a row says of a metric or a cost, in the read-out that ranks; of the task, its training is asked."""
    trained = rows.get(outcome.run)
    task = trained.score(metric) if trained is not None and trained.status == "done" else None
    if outcome.kind == "attack" and is_about_the_task(outcome, metric, rows):
        under = outcome.costs.get(f"{metric}_under_attack")  # what became of it where the attack changed the training
        if under is not None:
            seed = Seed(under, task.n if task else 1, (), (), outcome.key)
            return Reading(seed, task.leaks_when if task else "high", True)
        return Reading.of(task, trained, True) if task and trained else None
    own = outcome.score(metric)
    if own is not None:
        return Reading.of(own, outcome, outcome.kind == "train")
    for row in (outcome, trained):
        if row is not None and metric in row.costs:
            return Reading(Seed(row.costs[metric], 1, (), (), row.key), "low", cost=True)
    return None


@dataclass(frozen=True)
class Measured:
    metric: str
    dataset: str = ""
    seeds: Mapping[int, Seed] | None = None  # none: there is no value, and `note` says why
    note: str = ""
    doubt: str = ""
    keys: tuple[str, ...] = ()
    leaks_when: str = "high"  # of utility: good when
    utility: bool = False
    cost: bool = False
    role: str = ""  # of the attack
    against: str = ""

    @property
    def mean(self) -> float | None:
        return sum(s.mean for s in self.seeds.values()) / len(self.seeds) if self.seeds else None

    @property
    def n(self) -> int:
        return sum(s.n for s in self.seeds.values()) if self.seeds else 0

    @classmethod
    def of(
        cls, found: Sequence[Outcome], metric: str, rows: Mapping[str, Outcome], bars: Mapping[str, Bars] = NO_BARS
    ) -> Measured:
        """Of rows that differ in their seed alone; without a value if one of them has none."""
        first, keys = found[0], tuple(o.key for o in found)
        readings = [reading_of(o, metric, rows) for o in found]
        present = [r for r in readings if r is not None]
        if len(present) < len(found):
            count = f" for {len(found) - len(present)} of {len(found)}" if len(found) > 1 else ""
            return cls(metric, first.dataset, None, f"unscored: no {metric}{count}", keys=keys, role=first.role)
        one = present[0]
        said = ""
        if not one.cost:
            doubts = (utility_doubt(o, rows, bars) if one.utility else doubt(o, rows) for o in found)
            said = next((d for d in doubts if d), "")
        seeds = {o.seed: r.seed for o, r in zip(found, present, strict=True)}
        return cls(metric, first.dataset, seeds, doubt=said, keys=keys, leaks_when=one.leaks_when,
                   utility=one.utility, cost=one.cost, role=first.role, against=one.against)  # fmt: skip


def planned_seeds(*plans: Mapping[str, Any]) -> dict[str, Sequence[int]]:
    """The seeds each cell is planned with, by its key: in the first of several plans that has it."""
    found: dict[str, Sequence[int]] = {}
    for plan in reversed(plans):
        seeds = plan.get("seeds", ())
        if all(isinstance(seed, int) for seed in seeds):  # a plan from before cells had seeds of their own
            seeds = [seeds] * len(plan["cells"])
        found |= zip(plan["cells"], seeds, strict=True)
    return found


class Rows:
    """The rows of a recipe, found by where they stand."""

    def __init__(self, outcomes: Sequence[Outcome], everything: Iterable[Outcome],
                 seeds: Mapping[str, Sequence[int]] = MappingProxyType({}), gap: str = "not run",
                 bars: Mapping[str, Bars] = NO_BARS) -> None:  # fmt: skip
        self.by_key = {o.key: o for o in everything}
        self.seeds = seeds  # that were planned, by the key of each outcome
        self.bars = bars  # of the undefended trainings, by the key of each outcome
        self.gap = gap  # what is said where there is nothing
        self.outcomes = outcomes
        self._indexes: dict[tuple[str, ...], dict[tuple[str, ...], list[Outcome]]] = {}

    def on(self, axis: str, where: Mapping[str, str]) -> list[str]:
        """What stands on an axis among the rows of a table, in the order it comes."""
        fixed = {a: v for a, v in where.items() if a != "metric"}
        mine = [o for o in self.outcomes if all(value_on(o, a) == v for a, v in fixed.items())]
        return [value for value in dict.fromkeys(value_on(o, axis) for o in mine) if value]

    def find(self, at: Mapping[str, str]) -> list[Outcome]:
        wanted = {axis: value for axis, value in at.items() if axis != "metric"}
        if wanted.get("protected") == "0":
            wanted["defense"] = "none"
        if wanted.get("defense") == "none":  # which has no settings
            wanted = {a: v for a, v in wanted.items() if a != "protected" and (part_of(a) or ("",))[0] != "defense"}
        axes = tuple(sorted(wanted))
        attacked = any(map(is_about_the_adversary, axes))
        if axes not in self._indexes:
            index: dict[tuple[str, ...], list[Outcome]] = {}
            for o in self.outcomes:
                if o.kind == ("attack" if attacked else "train"):
                    index.setdefault(tuple(value_on(o, axis) or "" for axis in axes), []).append(o)
            self._indexes[axes] = index
        return self._indexes[axes].get(tuple(wanted[axis] for axis in axes), [])

    def measure(self, at: Mapping[str, str]) -> Measured:
        return self._measured(self.find(at), at["metric"])

    def twin(self, at: Mapping[str, str]) -> Measured:
        """The same on the undefended run."""
        found = self.find(at)
        twins = [self.by_key[o.twin] for o in found if o.twin in self.by_key]
        if len(twins) < len(found):
            return Measured(at["metric"], note="not run: the undefended twin")
        return self._measured(list({o.key: o for o in twins}.values()), at["metric"])

    def _measured(self, found: Sequence[Outcome], metric: str) -> Measured:
        if not found:
            return Measured(metric, note=self.gap)
        keys, dataset = tuple(o.key for o in found), found[0].dataset

        def without(note: str) -> Measured:
            return Measured(metric, dataset, None, note, keys=keys, role=found[0].role)

        if missing := [o for o in found if o.status != "done"]:
            # One seed that failed breaks the mean: it must not become the mean of the survivors.
            return without(f"{missing[0].status}: {missing[0].reason}")
        if absent := sorted({seed for o in found for seed in self.seeds.get(o.key, ())} - {o.seed for o in found}):
            return without(f"not run: seed {', '.join(map(str, absent))}")
        if other := settings_apart(found):
            return without(f"ambiguous: rows that differ in {other}")
        return Measured.of(found, metric, self.by_key, self.bars)


def settings_apart(found: Sequence[Outcome]) -> str:
    """In which setting rows differ that should differ in their seed alone; nothing if they do not."""
    if len(found) < 2:
        return ""
    if len({o.seed for o in found}) == len(found) and all(_seedless(o) == _seedless(found[0]) for o in found):
        return ""  # as it nearly always is, and sooner told
    flat = [flattened(o.cell) for o in found]
    for place in sorted({place for one in flat for place in one}):
        if place != "run.seed" and len({json.dumps(one.get(place)) for one in flat}) > 1:
            return place
    return "nothing but their key" if len({o.seed for o in found}) < len(found) else ""


def _seedless(outcome: Outcome) -> dict[str, Any]:
    run = outcome.cell.get("run")
    return {**outcome.cell, "run": {**run, "seed": None}} if isinstance(run, Mapping) else dict(outcome.cell)


def flattened(document: Any, place: str = "") -> dict[str, Any]:
    """Nested settings as one mapping, `run.training.epochs` to its value."""
    if isinstance(document, Mapping) and document:
        items = [(f"{place}.{key}" if place else str(key), value) for key, value in document.items()]
    elif isinstance(document, list) and document:
        items = [(f"{place}[{i}]", value) for i, value in enumerate(document)]
    else:
        return {place: document} if place else {}
    return {inner: value for key, item in items for inner, value in flattened(item, key).items()}
