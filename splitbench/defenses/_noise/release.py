"""What Gaussian noise on bounded data promises, by the accountant of dp-accounting.

A release shows vectors of norm at most `clip` with noise of standard deviation `sigma`. Replacing one sample by any
other moves its vector by at most 2 * clip. Of Gaussian noise the composition is exact: n releases are one with a
sensitivity sqrt(n) times as large.
"""

from __future__ import annotations

import functools
import importlib.util
import math

from splitbench.core.errors import SplitbenchError


def require_accountant(who: str) -> None:
    """Looked for, not imported: a recipe is checked in an instant, and before anything runs."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise SplitbenchError(f"{who} needs dp-accounting: pip install 'splitbench[dp]'")


@functools.lru_cache(maxsize=64)
def sigma_for(epsilon: float, delta: float, clip: float) -> float:
    """The least standard deviation with which one release is (epsilon, delta)-private."""
    import dp_accounting

    return 2 * clip * float(dp_accounting.get_sigma_gaussian(epsilon, delta))


@functools.lru_cache(maxsize=64)
def epsilon_of(sigma: float, delta: float, clip: float, releases: int = 1) -> float:
    """The least epsilon with which that many releases are (epsilon, delta)-private."""
    import dp_accounting

    if releases == 0:
        return 0.0
    return float(dp_accounting.get_epsilon_gaussian(sigma / (2 * clip * math.sqrt(releases)), delta))
