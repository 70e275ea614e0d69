"""How sure a mean is."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import stdtrit


def half_width(values: np.ndarray) -> float | None:
    """Half the 95 % t interval of a mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / math.sqrt(len(values)))


def over(intervals: Iterable[tuple[int, int]], unit: str = "image") -> str:
    """What intervals are over, each given as its seeds and its samples: seeds, or the samples where there is one."""
    known = list(intervals)
    most = max(seeds for seeds, _ in known)
    samples = max((n for seeds, n in known if seeds == 1), default=0)
    if most == 1:
        return f"{samples} {unit}s, one seed"
    return f"{most} seeds" + (f", over {samples} {unit}s where one was run" if samples else "")


def figures(value: float, digits: int = 3) -> str:
    """A share with its digits; a count of thousands without any."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"
