"""A cell of a table, from the outcomes that stand there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from splitbench.report.statistics.best import Mark
from splitbench.report.statistics.calibration import Bars
from splitbench.report.statistics.calibration import doubt as why_not
from splitbench.report.statistics.interval import figures, half_width
from splitbench.report.statistics.measured import Measured, settings_apart
from splitbench.report.statistics.versions import without_older
from splitbench.report.statistics.worst import worst
from splitbench.report.tables.coordinates import Placed
from splitbench.store.outcome import Outcome


@dataclass(frozen=True)
class TableCell:
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
    against: str = ""  # where messages mix samples: what the value is about
    mixture: float | None = None  # and the same against the mixture
    mark: Mark = ""

    def text(self, digits: int = 3) -> str:
        if self.mean is None:
            return self.note.split(":")[0] if self.note else "–"
        value = figures(self.mean, digits) + ("?" if self.doubt else "") + ("†" if self.ladder else "")
        value += "=" if self.mark == "tie" else ""
        return value if self.half is None else f"{value} ±{figures(self.half, digits)}"


@dataclass(frozen=True)
class References:
    """What a value is read beside, shown in the table or not."""

    twins: Mapping[str, Outcome]  # by key
    fallen: Mapping[str, str]  # outcomes that know more and leak less
    bars: Mapping[str, Bars] = field(default_factory=dict)  # of the undefended trainings, by the key of each outcome


def cell_of(outcomes: Sequence[Outcome], metric: str, beside: References) -> TableCell:
    outcomes, without = without_older(outcomes)
    keys = tuple(o.key for o in outcomes)
    missing = [o for o in outcomes if o.status != "done"]
    if missing:
        # One seed that failed breaks the mean: it must not become the mean of the survivors.
        return TableCell(None, note=f"{missing[0].status}: {missing[0].reason}", keys=keys)
    if other := settings_apart(outcomes):
        return TableCell(None, note=f"ambiguous: {len(outcomes)} rows that differ in {other}", keys=keys)
    measured = Measured.of(outcomes, metric, beside.twins, beside.bars)
    if not measured.seeds:
        return TableCell(None, note=measured.note, keys=keys)
    seeds = list(measured.seeds.values())
    ladder = ""
    if not measured.utility and not measured.cost:
        ladder = "; ".join(dict.fromkeys(beside.fallen[key] for key in keys if key in beside.fallen))
    mixed = [s.value for o in outcomes for s in o.scores if s.metric == metric and s.against == "mixture"]
    return TableCell(
        measured.mean,
        half_width(np.array([s.mean for s in seeds] if len(seeds) > 1 else seeds[0].values)),
        measured.n,
        len(seeds),
        doubt=measured.doubt,
        ladder=ladder,
        without=without,
        keys=keys,
        measured=measured,
        against=measured.against,
        mixture=float(np.mean(mixed)) if mixed else None,
    )


def worst_case(runs: Sequence[Sequence[Placed]], names: Sequence[str], metric: str, beside: References) -> TableCell:
    left_out: list[str] = []
    each: list[np.ndarray] = []
    keys: list[str] = []
    n = 0
    for run in runs:
        mounted = list({o.key: o for _, o in run}.values())
        found = worst(mounted, metric)
        absent = [(name, "not run") for name in names if name not in {at["attack"] for at, _ in run}]
        seed = f" at seed {mounted[0].seed}" if len(runs) > 1 else ""
        left_out += [f"{name}{seed} ({why})" for name, why in (*found.left_out, *absent)]
        each.append(np.array(found.values if found.whole is None else [found.whole]))
        keys += found.keys
        n += found.n
    without = f"leaves out {', '.join(dict.fromkeys(left_out))}" if left_out else ""
    if not all(len(values) for values in each):
        return TableCell(None, note=f"unscored: {without}", keys=tuple(keys))
    doubts = [why_not(beside.twins[key], beside.twins) for key in keys]
    doubt = "uncalibrated: none of these attacks works undefended" if all(doubts) else ""
    means = np.array([values.mean() for values in each])
    half = half_width(means if len(means) > 1 else each[0])
    return TableCell(float(means.mean()), half, n, len(means), doubt=doubt, without=without, keys=tuple(keys))
