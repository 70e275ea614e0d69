"""The worst case over all attacks on a run: sample by sample the one that leaks most, or the best as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splitbench.store.outcome import Outcome, Score


@dataclass(frozen=True)
class Worst:
    metric: str
    values: tuple[float, ...]  # one per sample; none if no attack counts, or if the metric is about all together
    won: Mapping[str, int]  # on how many samples each attack leaked most; of equals, the first mounted
    left_out: tuple[tuple[str, str], ...]  # attacks that do not count, and why
    keys: tuple[str, ...]  # the outcomes it is made of
    whole: float | None = None  # the best attack's, where the metric is about all samples together
    n: int = 0
    unit: str = "image"

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else self.whole

    def who(self) -> str:
        """Whose it is, in words."""
        if not self.values:
            return f"the best attack as a whole, {next(iter(self.won))}"
        return "won by " + ", ".join(f"{name} on {count}" for name, count in self.won.items())


def looking(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The attacks that look at what was sent: floors look at nothing, bounds at what no adversary has."""
    return [o for o in outcomes if o.kind == "attack" and o.role == "attack"]


def by_goal(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Attacks by what they recover: of different goals there is no common worst case."""
    found: dict[str, list[Outcome]] = {}
    for o in outcomes:
        found.setdefault(o.goal, []).append(o)
    return found


def worst(outcomes: Sequence[Outcome], metric: str = "") -> Worst:
    """Of the attacks of one goal on one run, in the read-out that ranks; in the metric that ranks if none is given.

    Sample by sample over the samples that most of them were scored on. Where the goal ranks attacks as a whole, or no
    attack has a value for each sample, it is the attack that leaks most over all.
    """
    if not outcomes:
        return Worst(metric, (), {}, (), ())
    first = outcomes[0]
    metric, unit = metric or first.ranking, first.unit
    left_out: list[tuple[str, str]] = [(o.adversary, o.status) for o in outcomes if o.status != "done"]
    done = [(o, s) for o in outcomes if o.status == "done" and (s := o.score(metric)) is not None]
    each = [(o, s) for o, s in done if s.values and o.about(s)]
    pooled = (first.aim is not None and first.aim.worst == "whole") or not each
    if pooled and done and all(s.n for _, s in done):
        left_out += _unscored(outcomes, done, f"no {metric}")
        return _whole(metric, done, tuple(left_out), unit)
    left_out += _unscored(outcomes, each, f"no {metric} for each {unit}")
    if not each:
        return Worst(metric, (), {}, tuple(left_out), (), unit=unit)
    [(samples, _)] = Counter(o.about(s) for o, s in each).most_common(1)
    left_out += [(o.adversary, f"scored on other {unit}s") for o, s in each if o.about(s) != samples]
    usable = [(o, s) for o, s in each if o.about(s) == samples]
    table = np.array([s.values for _, s in usable])  # (attacks, samples)
    best = (usable[0][1].sign * table).argmax(0)
    won = Counter({o.adversary: 0 for o, _ in usable})
    won.update(usable[i][0].adversary for i in best)
    values = tuple(table[best, np.arange(len(samples))].tolist())
    keys = tuple(o.key for o, _ in usable)
    return Worst(metric, values, dict(won), tuple(left_out), keys, n=len(values), unit=unit)


def _unscored(outcomes: Sequence[Outcome], scored: Sequence[tuple[Outcome, Score]], why: str) -> list[tuple[str, str]]:
    known = {o.key for o, _ in scored}
    return [(o.adversary, why) for o in outcomes if o.status == "done" and o.key not in known]


def _whole(
    metric: str, done: Sequence[tuple[Outcome, Score]], left_out: tuple[tuple[str, str], ...], unit: str
) -> Worst:
    best, score = max(done, key=lambda one: one[1].sign * one[1].value)
    keys = tuple(o.key for o, _ in done)
    return Worst(metric, (), {best.adversary: score.n}, left_out, keys, score.value, score.n, unit)
