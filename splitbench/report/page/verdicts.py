"""How each defense stands in each setting: what it hides, what it costs, and what nobody has tried."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from splitbench.core.goal import GOALS
from splitbench.plan.axes import COSTS as PHRASES
from splitbench.report.page.gather import Gathered, Setting, prose
from splitbench.report.page.plot_axis import short
from splitbench.report.statistics.calibration import doubt, utility_doubt
from splitbench.report.statistics.interval import half_width
from splitbench.report.statistics.worst import worst
from splitbench.runner.verdict import Verdict as Seen
from splitbench.store.outcome import UTILITY, Outcome, Score

Verdict = Literal["holds", "leaks", "uncalibrated", "not attacked", "failed", "undefended"]


@dataclass(frozen=True)
class Cost:
    """Something a training row counts, where it does; less is better."""

    key: str
    column: str
    phrase: str
    unit: str

    def text(self, value: float) -> str:
        said = short(value)
        return f"{said}{self.unit}" if said[-1].isalpha() else f"{said} {self.unit}".rstrip()


COSTS = (
    Cost("bytes_up", "sent", PHRASES["bytes_up"].removeprefix("bytes "), "B"),
    Cost("edge_macs", "edge MACs", PHRASES["edge_macs"], ""),
    Cost("epsilon", "epsilon", PHRASES["epsilon"], ""),
)


@dataclass(frozen=True)
class Mean:
    """Over seeds if there are several, else over samples; no interval where there is a single value."""

    value: float
    half: float | None = None
    seeds: int = 1

    def text(self, digits: int = 3) -> str:
        return f"{self.value:.{digits}f}" + ("" if self.half is None else f" ±{self.half:.{digits}f}")


@dataclass(frozen=True)
class Faced:
    """One attacker on one defense, over the seeds."""

    name: str
    role: str
    knowledge: str
    outcomes: tuple[Outcome, ...]
    seen: Seen
    missing: str  # why there is no value: the status and its reason

    @property
    def attack(self) -> str:
        """Its name, whatever it knows."""
        return self.name.replace(f" · {self.knowledge}", "", 1)

    @property
    def verdict(self) -> str:
        return self.missing.partition(":")[0] if self.missing else self.seen.verdict


@dataclass(frozen=True)
class Standing:
    setting: Setting
    defense: str
    verdict: Verdict
    runs: tuple[Outcome, ...]  # the trainings
    faced: tuple[Faced, ...]  # attackers that look, and bounds
    utility: Mean | None
    leakage: Mean | None  # the worst case over the attacks
    floor: float | None  # the best guess that looks at nothing
    costs: Mapping[str, float]
    goal: str = ""  # what is recovered; empty if nothing was attacked in this setting
    metric: str = ""  # that ranks
    unit: str = "image"
    sign: int = 1  # 1 if more leaks more
    useless: str = ""  # why its utility says nothing

    @property
    def leak(self) -> str:
        """The metric in prose."""
        return prose(self.metric)

    @property
    def name(self) -> str:
        """The defense, and against what if that is not the recovery of inputs."""
        return self.defense if self.goal in ("", "inputs") else f"{self.defense} ({self.goal})"

    @property
    def group(self) -> tuple[str, str]:
        """What it can be compared within."""
        return self.setting.key, self.goal

    @property
    def heading(self) -> str:
        recovers = GOALS[self.goal].recovers if self.goal in GOALS else self.goal
        return self.setting.name + ("" if self.goal in ("", "inputs") else f" · recovering {recovers}")

    @property
    def attacks(self) -> list[Faced]:
        return [f for f in self.faced if f.role == "attack"]

    @property
    def strongest(self) -> Faced | None:
        """Of the attacks that mean something if there are any."""
        done = [f for f in self.attacks if f.seen.value is not None]
        done = [f for f in done if f.seen.calibrated] or done
        return max(done, key=lambda f: self.sign * (f.seen.value or 0.0), default=None)

    @property
    def bound(self) -> float | None:
        """What a decoder recovers that was shown true pairs of the defended client."""
        found = [f.seen.value for f in self.faced if f.role == "bound" and f.seen.value is not None]
        return max(found, key=lambda value: self.sign * value, default=None)

    @property
    def adaptive(self) -> bool:
        """Whether an attack that means something knew of the defense."""
        return any(f.knowledge not in ("", "none") and f.verdict in ("leaks", "hides") for f in self.attacks)


def standings(rows: Gathered) -> list[Standing]:
    """Undefended first in each setting and goal, then by name, 2 before 10."""
    groups: dict[tuple[str, str], dict[str, list[Outcome]]] = {}
    for o in rows.outcomes:
        place = rows.setting_of[o.run], rows.defense_of[o.run]
        groups.setdefault(place, {}).setdefault(o.run, []).append(o)
    order = {key: i for i, key in enumerate(rows.settings)}
    goals: dict[str, dict[str, None]] = {}
    for o in rows.outcomes:
        if o.kind == "attack":
            goals.setdefault(rows.setting_of[o.run], {})[o.goal] = None
    found = [
        _standing(rows, rows.settings[key], name, runs, goal)
        for (key, name), runs in groups.items()
        for goal in goals.get(key, {"": None})
    ]
    ranks = {goal: i for i, goal in enumerate(("", *GOALS))}
    return sorted(
        found,
        key=lambda s: (
            order[s.setting.key],
            ranks.get(s.goal, len(ranks)),
            s.goal,
            s.verdict != "undefended",
            _natural(s.defense),
        ),
    )


def _natural(name: str) -> list[tuple[float, str]]:
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def _standing(
    rows: Gathered, setting: Setting, defense: str, of_runs: Mapping[str, Sequence[Outcome]], goal: str
) -> Standing:
    runs = {run: [o for o in those if o.kind == "train" or o.goal == goal] for run, those in of_runs.items()}
    every = [o for run in runs.values() for o in run]
    if not every:  # neither trained nor attacked for this goal, but for another
        every = [o for run in of_runs.values() for o in run][:1]
    trainings = tuple(o for o in every if o.kind == "train")
    attackers: dict[str, list[Outcome]] = {}
    for o in every:
        if o.kind == "attack" and o.goal == goal and o.role != "floor":
            attackers.setdefault(rows.attacker_of[o.key], []).append(o)
    faced = tuple(_faced(rows, name, tuple(mounted)) for name, mounted in attackers.items())
    mine = [o for o in every if o.kind == "attack" and o.goal == goal]
    floors = [f for o in mine if (f := _floor(rows, o)) is not None]
    scored = next((s for o in mine if (s := o.score(o.ranking)) is not None), None)
    done = [o for o in trainings if o.status == "done"]
    return Standing(
        setting,
        defense,
        _verdict(every[0].defense, trainings, faced),
        trainings,
        faced,
        _utility(done) if len(done) == len(trainings) else None,
        _leakage(list(runs.values())),
        float(np.mean(floors)) if floors else None,
        {
            cost.key: float(np.mean([o.costs[cost.key] for o in done]))
            for cost in COSTS
            if done and all(cost.key in o.costs for o in done)
        },
        goal,
        mine[0].ranking if mine else "",
        mine[0].unit if mine else "image",
        scored.sign if scored else 1,
        next((d for o in trainings if (d := utility_doubt(o, rows.by_key, rows.bars))), ""),
    )


def _verdict(defense: str, trainings: Sequence[Outcome], faced: Sequence[Faced]) -> Verdict:
    if defense == "none":
        return "undefended"
    if trainings and all(o.status != "done" for o in trainings):
        return "failed"
    verdicts = {f.verdict for f in faced if f.role == "attack"}
    if "leaks" in verdicts:
        return "leaks"
    if "hides" in verdicts:
        return "holds"
    return "uncalibrated" if "uncalibrated" in verdicts else "not attacked"


def _faced(rows: Gathered, name: str, mounted: tuple[Outcome, ...]) -> Faced:
    """One seed that is not done breaks the mean, as in tables."""
    first = mounted[0]
    gone = next((o for o in mounted if o.status != "done"), None)
    values = [score(o) for o in mounted]
    missing = ""
    if gone is not None:
        missing = f"{gone.status}: {gone.reason}"
    elif None in values:
        missing = f"unscored: no {first.ranking}"
    twins = [score(rows.by_key.get(o.twin)) for o in mounted]
    floors = [_floor(rows, o) for o in mounted]
    floor = _mean(floors)
    if floor is None and first.aim is not None:
        floor = first.aim.blind or None
    direction = next((s.leaks_when for o in mounted if (s := o.score(o.ranking)) is not None), "high")
    seen = Seen(
        None if missing else _mean(values), _mean(twins), floor, dict(first.bars).get(first.ranking, 0.0),
        first.ranking, direction, not any(doubt(o, rows.by_key) for o in mounted),
    )  # fmt: skip
    return Faced(name, first.role, first.knowledge, mounted, seen, missing)


def score(outcome: Outcome | None) -> float | None:
    """Its leakage in the metric that ranks; None if there is none, or none that is a number."""
    return _finite(outcome.score(outcome.ranking)) if outcome is not None and outcome.status == "done" else None


def _finite(score: Score | None) -> float | None:
    return score.value if score is not None and math.isfinite(score.value) else None


def _floor(rows: Gathered, outcome: Outcome) -> float | None:
    """The best floor of its goal on the same run, from as many auxiliary samples if it was run so."""
    threat = outcome.cell.get("threat", {})
    floors = [o for o in rows.attacks_on.get(outcome.run, ()) if o.role == "floor" and o.goal == outcome.goal]
    alike = [o for o in floors if o.cell.get("threat", {}).get("auxiliary") == threat.get("auxiliary")]
    own = outcome.score(outcome.ranking)
    sign = own.sign if own else 1
    return max((v for o in alike or floors if (v := score(o)) is not None), key=lambda v: sign * v, default=None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def utility(outcome: Outcome) -> float | None:
    return _finite(outcome.score(UTILITY)) if outcome.status == "done" else None


def _utility(trainings: Sequence[Outcome]) -> Mean | None:
    scores = [v for o in trainings if (v := utility(o)) is not None]
    if not scores or len(scores) < len(trainings):
        return None
    return Mean(float(np.mean(scores)), half_width(np.array(scores)), len(scores))


def _leakage(runs: Sequence[Sequence[Outcome]]) -> Mean | None:
    each = []
    for run in runs:
        mounted = [o for o in run if o.kind == "attack" and o.role == "attack" and score(o) is not None]
        found = worst(mounted)
        if found.mean is not None:
            each.append(np.array(found.values or [found.whole]))
    if not each:
        return None
    means = np.array([values.mean() for values in each])
    return Mean(float(means.mean()), half_width(means if len(means) > 1 else each[0]), len(means))
