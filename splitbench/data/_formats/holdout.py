"""A test split for data that comes without one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def last_fifth(y: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """True for the last fifth of every class (at least one, never the only one); `y` is sorted.

    The last and not every fifth, since neighbours in a folder are often frames of one scene.
    """
    counts = np.bincount(y)
    rank = np.arange(len(y)) - (np.cumsum(counts) - counts)[y]
    held = np.where(counts > 1, np.maximum(1, counts // 5), 0)
    chosen: npt.NDArray[np.bool_] = rank >= (counts - held)[y]
    return chosen
