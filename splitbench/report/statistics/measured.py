"""The rows that answer a question: everything at one place of a table, seed by seed and image by image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from splitbench.plan.axes import FIXED, plain
from splitbench.report.statistics.calibration import doubt
from splitbench.store.outcome import Outcome, Score

UTILITY = ("accuracy", "mcc")  # how well the task is done, under attack or not


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
class Measured:
    metric: str
    dataset: str = ""
    seeds: Mapping[int, Seed] | None = None  # none: there is no value, and `note` says why
    note: str = ""
    doubt: str = ""
    keys: tuple[str, ...] = ()

    @property
    def mean(self) -> float | None:
        return sum(s.mean for s in self.seeds.values()) / len(self.seeds) if self.seeds else None

    @property
    def n(self) -> int:
        return sum(s.n for s in self.seeds.values()) if self.seeds else 0


def coordinates(outcome: Outcome) -> dict[str, str]:
    """Where an outcome stands on every axis a paper's table may have."""
    run = outcome.cell.get("run", {})
    defenses = [d for d in run.get("defenses", ()) if isinstance(d, Mapping)]
    protected = run.get("protected")
    threat = outcome.cell.get("threat", {})
    at = {name: value for d in defenses for name, value in d.get("settings", {}).items() if name not in FIXED}
    at |= {axis: getattr(outcome, axis) for axis in ("dataset", "model", "cut", "topology", "clients", "seed")}
    at |= {axis: threat[axis] for axis in ("rounds", "auxiliary", "queries") if axis in threat}
    at |= {
        "defense": "+".join(d["name"] for d in defenses) or "none",
        "protected": (outcome.clients if protected is None else protected) if defenses else 0,
        "attack": outcome.attack_name,
        "knowledge": outcome.knowledge,
    }
    return {axis: plain(value) for axis, value in at.items()}


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
                 seeds: Mapping[str, Sequence[int]] = MappingProxyType({}), gap: str = "not run") -> None:  # fmt: skip
        self.by_key = {o.key: o for o in everything}
        self.seeds = seeds  # that were planned, by the key of each outcome
        self.gap = gap  # what is said where there is nothing
        self._at = [(coordinates(o), o) for o in outcomes]
        self._indexes: dict[tuple[str, ...], dict[tuple[str, ...], list[Outcome]]] = {}

    def on(self, axis: str, where: Mapping[str, str]) -> list[str]:
        """What stands on an axis among the rows of a table, in the order it comes."""
        mine = [at for at, _ in self._at if all(at.get(a) == v for a, v in where.items() if a != "metric")]
        return list(dict.fromkeys(at[axis] for at in mine if at.get(axis)))

    def find(self, at: Mapping[str, str]) -> list[Outcome]:
        wanted = {axis: value for axis, value in at.items() if axis != "metric"}
        if wanted.get("protected") == "0":
            wanted["defense"] = "none"
        if wanted.get("defense") == "none":  # which has no settings
            wanted = {axis: value for axis, value in wanted.items() if axis in FIXED and axis != "protected"}
        axes = tuple(sorted(wanted))
        kind = "attack" if "attack" in wanted else "train"
        if axes not in self._indexes:
            index: dict[tuple[str, ...], list[Outcome]] = {}
            for place, outcome in self._at:
                if outcome.kind == kind:
                    index.setdefault(tuple(place.get(axis, "") for axis in axes), []).append(outcome)
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
            return Measured(metric, dataset, None, note, keys=keys)

        if missing := [o for o in found if o.status != "done"]:
            # One seed that failed breaks the mean: it must not become the mean of the survivors.
            return without(f"{missing[0].status}: {missing[0].reason}")
        if absent := sorted({seed for o in found for seed in self.seeds.get(o.key, ())} - {o.seed for o in found}):
            return without(f"not run: seed {', '.join(map(str, absent))}")
        if other := settings_apart(found):
            return without(f"ambiguous: rows that differ in {other}")
        seeds: dict[int, Seed] = {}
        for outcome in found:
            seed = self._seed(outcome, metric)
            if seed is None:
                return without(f"unscored: no {metric}")
            seeds[outcome.seed] = seed
        said = "" if metric in UTILITY else next((d for o in found if (d := doubt(o, self.by_key))), "")
        return Measured(metric, dataset, seeds, doubt=said, keys=keys)

    def _seed(self, outcome: Outcome, metric: str) -> Seed | None:
        if outcome.kind == "attack" and metric in UTILITY:
            # The task's, and what became of it where the attack changed the training.
            trained = self.by_key.get(outcome.run)
            score = trained.score(metric) if trained is not None and trained.status == "done" else None
            under = outcome.costs.get(f"{metric}_under_attack")
            if under is not None:
                return Seed(under, score.n if score else 1, (), (), outcome.key)
            return Seed.of(score, (), outcome.run) if score else None
        own = outcome.score(metric)
        return Seed.of(own, outcome.samples, outcome.key) if own else None


def without_older(found: Sequence[Outcome]) -> tuple[Sequence[Outcome], str]:
    """Those of the newest attack and defenses, and what is left out for it."""
    versions = {o.key: _versions(o) for o in found}
    newest = max(versions.values(), default=())
    kept = [o for o in found if versions[o.key] == newest]
    left = len(found) - len(kept)
    rows = "1 row" if left == 1 else f"{left} rows"
    return kept, f"leaves out {rows} of an older version of the attack or the defense" if left else ""


def _versions(outcome: Outcome) -> tuple[int, ...]:
    parts = [outcome.cell.get("attack") or {}, *outcome.cell.get("run", {}).get("defenses", ())]
    return tuple(int(part.get("version", 0)) for part in parts if isinstance(part, Mapping))


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
