"""The worst case: image by image, the attack that leaks most of all that were mounted on a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splitbench.core import registry
from splitbench.store.outcome import Outcome


@dataclass(frozen=True)
class Worst:
    values: tuple[float, ...]  # one an image; none if no attack counts
    won: Mapping[str, int]  # on how many images each attack leaked most; of equals, the first mounted
    left_out: tuple[tuple[str, str], ...]  # attacks that do not count, and why
    keys: tuple[str, ...]  # the outcomes it is made of


def looking(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The attacks that look at what was sent: floors look at nothing, bounds at what no adversary has."""
    mounted = [o for o in outcomes if o.kind == "attack"]
    # A role is read from a source file: once an attack, not once an outcome.
    roles = {label: outcome.role for label, outcome in {o.attack: o for o in mounted}.items()}
    return [o for o in mounted if roles[o.attack] == "attack"]


def worst(outcomes: Sequence[Outcome], metric: str) -> Worst:
    """Of the attacks on one run, over the images that most of them were scored on, in the read-out that ranks."""
    left_out: list[tuple[str, str]] = []
    usable: list[tuple[Outcome, tuple[float, ...]]] = []
    for outcome in outcomes:
        score = outcome.score(metric)
        if outcome.status != "done":
            left_out.append((outcome.adversary, outcome.status))
        elif score is None or not score.values or len(score.values) != len(outcome.samples):
            left_out.append((outcome.adversary, f"no {metric} for each image"))
        else:
            usable.append((outcome, score.values))
    if not usable:
        return Worst((), {}, tuple(left_out), ())
    [(samples, _)] = Counter(o.samples for o, _ in usable).most_common(1)
    left_out += [(o.adversary, "scored on other images") for o, _ in usable if o.samples != samples]
    usable = [(o, values) for o, values in usable if o.samples == samples]
    table = np.array([values for _, values in usable])  # (attacks, images)
    upwards = 1 if registry.declared("metrics", metric, "leaks_when") == "high" else -1
    first = (upwards * table).argmax(0)
    won = Counter({o.adversary: 0 for o, _ in usable})
    won.update(usable[i][0].adversary for i in first)
    values = tuple(table[first, np.arange(len(samples))].tolist())
    return Worst(values, dict(won), tuple(left_out), tuple(o.key for o, _ in usable))
