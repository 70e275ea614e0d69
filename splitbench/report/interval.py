"""How sure a mean is."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtrit


def half_width(values: np.ndarray) -> float | None:
    """Half the 95 % t interval of a mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / math.sqrt(len(values)))
