"""From values to places on a plot: a scale, and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WANTED = 5  # steps between ticks, about
LOG_FROM = 30.0  # the ratio of ends beyond which a scale is logarithmic


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends: 0 to 1."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)


def linear(
    label: str,
    values: Sequence[float],
    pad: float = 0.06,
    within: tuple[float, float] | None = None,
    least: float = 0.0,
) -> Axis:
    """An axis with some room around the values, but never beyond the bounds of what is measured.

    It spans `least` at least, so that a difference that is none does not look like one.
    """
    low, high = min(values), max(values)
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    room = (high - low) * pad or abs(high) * 0.1 or 0.1
    low, high = low - room, high + room
    if within is not None:
        slack = (high - low) * 0.05  # so that a mark on the bound is not cut
        low, high = max(low, within[0] - slack), min(high, within[1] + slack)
    step = nice((high - low) / WANTED)
    bottom, top = (low, high) if within is None else (max(low, within[0]), min(high, within[1]))
    first, last = math.ceil(bottom / step - 1e-9), math.floor(top / step + 1e-9)
    return Axis(label, low, high, tuple((i * step, short(i * step)) for i in range(first, last + 1)))


def through(label: str, values: Sequence[float]) -> Axis:
    """An axis for settings: few values are the ticks themselves; far apart they stand on a logarithmic scale."""
    found = sorted(set(values))
    log = found[0] > 0 and len(found) > 2 and found[-1] / found[0] >= LOG_FROM
    if len(found) == 1:
        room = abs(found[0]) * 0.5 or 1.0
        return Axis(label, found[0] - room, found[0] + room, ((found[0], short(found[0])),))
    if log:
        low, high = found[0] / 1.15, found[-1] * 1.15
    else:
        room = (found[-1] - found[0]) * 0.05
        low, high = found[0] - room, found[-1] + room
    axis = Axis(label, low, high, (), log)
    kept: list[tuple[float, str]] = []
    for value in found:
        if not kept or axis.share(value) - axis.share(kept[-1][0]) > 0.12:
            kept.append((value, short(value)))
    return Axis(label, low, high, tuple(kept), log)


def names(label: str, given: Sequence[str]) -> Axis:
    """An axis of names, at 0, 1, 2, ..."""
    return Axis(label, -0.25, len(given) - 0.75, tuple((float(i), name) for i, name in enumerate(given)))


def nice(step: float) -> float:
    """The next larger of 1, 2, 2.5 and 5 times a power of ten."""
    power: float = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * (1 - 1e-9))


_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """As few digits as say it: 0.25, 12, 1.2 G."""
    for size, unit in _UNITS:
        if abs(value) >= size * 10 or (abs(value) >= size and size > 1e3):
            return f"{value / size:.3g} {unit}"
    return f"{round(value, 10):.4g}"
