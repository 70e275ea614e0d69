"""An attacked number means something beside two others: the attack undefended, and an attacker that never looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verdict:
    """An attacked number beside what it must be read with, in the metric that ranks attacks of its goal."""

    value: float | None
    undefended: float | None  # the same attack on the undefended twin
    floor: float | None  # the best guess that looks at nothing
    bar: float = 0.0  # what the twin must reach; 0: nothing
    metric: str = ""  # that they are in
    leaks_when: str = "high"
    further: bool = True  # whether the twin reaches the bars in other metrics too

    @property
    def calibrated(self) -> bool:
        """Whether the attack works where nothing defends, so that failing here means something."""
        if self.undefended is None or not self.further:
            return False
        if self.floor is not None and self._sign * self.undefended <= self._sign * self.floor:
            return False  # where nothing defends, guessing does as well
        return not self.bar or self._sign * self.undefended >= self._sign * self.bar

    @property
    def verdict(self) -> Literal["uncalibrated", "leaks", "hides"]:
        """Whether more than half is recovered of what the attack gets undefended beyond the floor."""
        if not self.calibrated or self.value is None or self.undefended is None:
            return "uncalibrated"
        if self.floor is None and self.leaks_when == "low":
            # An error has no natural zero to count from: without a floor, twice the undefended error is the border.
            return "leaks" if self.value < 2 * self.undefended else "hides"
        floor = self.floor or 0.0
        return "leaks" if self._sign * (self.value - floor) > self._sign * (self.undefended - floor) / 2 else "hides"

    @property
    def _sign(self) -> int:
        return 1 if self.leaks_when == "high" else -1
