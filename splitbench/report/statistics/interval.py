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


def over(intervals: Iterable[tuple[int, int]]) -> str:
    """What intervals are over, each given as its seeds and its images: seeds, or the images where there is one."""
    known = list(intervals)
    most = max(seeds for seeds, _ in known)
    images = max((n for seeds, n in known if seeds == 1), default=0)
    if most == 1:
        return f"{images} images, one seed"
    return f"{most} seeds" + (f", over {images} images where one was run" if images else "")
