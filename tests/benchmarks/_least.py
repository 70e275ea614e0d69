"""How long each of several ways takes, where other work on the machine must not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least(
    sides: dict[str, Callable[[], Any]],
    rounds: int,
    enough: Callable[[dict[str, float]], bool] = lambda _: True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The least seconds of each side, in turns; over up to thrice the rounds until they are enough: only noise goes."""
    best = dict.fromkeys(sides, float("inf"))
    for at in range(3 * rounds):
        if at >= rounds and enough(best):
            break
        for name, side in sides.items():
            begun = clock()
            side()
            best[name] = min(best[name], clock() - begun)
    return best


def seconds(of: Any, rounds: int = 3) -> float:
    """The least processor time of one way."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        of()
        best = min(best, time.process_time() - begun)
    return best
