"""Which of several values is the best, marked only where it is separable from the others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Literal, TypeVar

from splitbench.report.statistics.bootstrap import difference
from splitbench.report.statistics.measured import Measured

K = TypeVar("K", bound=Hashable)
Mark = Literal["", "best", "tie"]


def upwards(measured: Measured, along: str) -> bool:
    """Whether more is better: of utility as its metric says, of a cost never; of leakage for an attack alone."""
    high = measured.leaks_when == "high"
    attacker = along == "attack" or along.startswith("attack.")
    return high if measured.utility or measured.cost or attacker else not high


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
        sign = 1 if upwards(values[keys[0]], along) else -1
        first = max(keys, key=lambda k: sign * (values[k].mean or 0.0))
        equals = [k for k in keys if k != first and not separable(values[first], values[k])]
        found |= dict.fromkeys([first, *equals], "tie") if equals else {first: "best"}
    return found


def separable(one: Measured, other: Measured) -> bool:
    found = difference([one], [other])
    return not isinstance(found, str) and found.varies and (found.low > 0 or found.high < 0)
