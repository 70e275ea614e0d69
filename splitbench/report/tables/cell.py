"""A cell of a table, from the outcomes that stand there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splitbench.report.statistics.best import Mark
from splitbench.report.statistics.calibration import doubt as why_not
from splitbench.report.statistics.interval import half_width
from splitbench.report.statistics.measured import Measured, Seed, settings_apart, without_older
from splitbench.report.statistics.worst import worst
from splitbench.report.tables.coordinates import Placed
from splitbench.store.outcome import Outcome


@dataclass(frozen=True)
class Entry:
    """A cell of a table. No interval where there is a single value."""

    mean: float | None
    half: float | None = None  # half the width of the 95 % interval
    n: int = 0
    seeds: int = 0
    note: str = ""  # why there is no value
    doubt: str = ""  # why the value says nothing about the defense
    ladder: str = ""  # that the same attack recovers more when it knows less
    without: str = ""  # what it leaves out
    keys: tuple[str, ...] = ()  # the outcomes it is made of
    measured: Measured | None = None  # seed by seed, to be compared with others
    attack: str = ""  # its name
    mark: Mark = ""

    def text(self, digits: int = 3) -> str:
        if self.mean is None:
            return self.note.split(":")[0] if self.note else "–"
        value = f"{self.mean:.{digits}f}" + ("?" if self.doubt else "") + ("†" if self.ladder else "")
        value += "=" if self.mark == "tie" else ""
        return value if self.half is None else f"{value} ±{self.half:.{digits}f}"


@dataclass(frozen=True)
class Beside:
    """What a value is read beside, shown in the table or not."""

    twins: Mapping[str, Outcome]  # by key
    fallen: Mapping[str, str]  # outcomes that know more and leak less


def entry_of(outcomes: Sequence[Outcome], metric: str, beside: Beside) -> Entry:
    outcomes, without = without_older(outcomes)
    keys = tuple(o.key for o in outcomes)
    missing = [o for o in outcomes if o.status != "done"]
    if missing:
        # One seed that failed breaks the mean: it must not become the mean of the survivors.
        return Entry(None, note=f"{missing[0].status}: {missing[0].reason}", keys=keys)
    if other := settings_apart(outcomes):
        return Entry(None, note=f"ambiguous: {len(outcomes)} rows that differ in {other}", keys=keys)
    scores = [o.score(metric) for o in outcomes]
    present = [s for s in scores if s is not None]
    if len(present) < len(scores):
        return Entry(None, note=f"unscored: no {metric} for {len(scores) - len(present)} of {len(scores)}", keys=keys)
    means = np.array([s.value for s in present])
    values = means if len(present) > 1 else np.array(present[0].values)
    n = sum(s.n for s in present)
    doubt = next((d for o in outcomes if (d := why_not(o, beside.twins))), "")
    ladder = "; ".join(dict.fromkeys(beside.fallen[key] for key in keys if key in beside.fallen))
    seeds = {o.seed: Seed.of(s, o.samples, o.key) for o, s in zip(outcomes, present, strict=True)}
    return Entry(float(means.mean()), half_width(values), n, len(present), doubt=doubt, ladder=ladder, without=without,
                 keys=keys, measured=Measured(metric, outcomes[0].dataset, seeds, keys=keys),
                 attack=outcomes[0].attack_name)  # fmt: skip


def worst_case(runs: Sequence[Sequence[Placed]], names: Sequence[str], metric: str, beside: Beside) -> Entry:
    left_out: list[str] = []
    each: list[np.ndarray] = []
    keys: list[str] = []
    for run in runs:
        mounted = list({o.key: o for _, o in run}.values())
        found = worst(mounted, metric)
        absent = [(name, "not run") for name in names if name not in {at["attack"] for at, _ in run}]
        seed = f" at seed {mounted[0].seed}" if len(runs) > 1 else ""
        left_out += [f"{name}{seed} ({why})" for name, why in (*found.left_out, *absent)]
        each.append(np.array(found.values))
        keys += found.keys
    without = f"leaves out {', '.join(dict.fromkeys(left_out))}" if left_out else ""
    if not all(len(values) for values in each):
        return Entry(None, note=f"unscored: {without}", keys=tuple(keys))
    doubts = [why_not(beside.twins[key], beside.twins) for key in keys]
    doubt = "uncalibrated: none of these attacks works undefended" if all(doubts) else ""
    means = np.array([values.mean() for values in each])
    half, n = half_width(means if len(means) > 1 else each[0]), sum(map(len, each))
    return Entry(float(means.mean()), half, n, len(means), doubt=doubt, without=without, keys=tuple(keys))
