"""Which of several values is the best, said only where it can be told from the others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Literal, TypeVar

from splitbench.core import registry
from splitbench.report.statistics.bootstrap import difference
from splitbench.report.statistics.measured import UTILITY, Measured

K = TypeVar("K", bound=Hashable)
Mark = Literal["", "best", "tie"]


def upwards(metric: str, along: str) -> bool:
    """Whether more is better: of the task's utility always; of leakage for an attack, not for a defense."""
    high = bool(registry.declared("metrics", metric, "leaks_when") == "high")
    return high if metric in UTILITY or along == "attack" else not high


def marks(values: Mapping[K, Measured], places: Mapping[K, Mapping[str, str]], along: str) -> dict[K, Mark]:
    """`best` if it is separable from all that differ from it along the axis alone; else `tie` for it and its equals."""
    groups: dict[tuple[tuple[str, str], ...], list[K]] = {}
    for key in values:
        group = tuple(sorted((axis, value) for axis, value in places[key].items() if axis != along))
        groups.setdefault(group, []).append(key)
    found: dict[K, Mark] = {}
    for keys in groups.values():
        if len({values[key].keys for key in keys}) < 2:
            continue  # one measurement is no competition
        sign = 1 if upwards(values[keys[0]].metric, along) else -1
        first = max(keys, key=lambda k: sign * (values[k].mean or 0.0))
        equals = [k for k in keys if k != first and not separable(values[first], values[k])]
        found |= dict.fromkeys([first, *equals], "tie") if equals else {first: "best"}
    return found


def separable(one: Measured, other: Measured) -> bool:
    found = difference([one], [other])
    return not isinstance(found, str) and found.varies and (found.low > 0 or found.high < 0)
