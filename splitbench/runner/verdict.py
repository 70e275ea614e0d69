"""An attacked number means something beside two others: the attack undefended, and an attacker that never looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Certificate:
    """An attacked number beside what it must be read with."""

    value: float | None
    undefended: float | None  # the same attack on the undefended twin
    floor: float | None  # the mean image
    bar: float

    @property
    def calibrated(self) -> bool:
        """Whether the attack works where nothing defends, so that failing here means something."""
        return self.undefended is not None and self.undefended >= self.bar

    @property
    def verdict(self) -> Literal["uncalibrated", "leaks", "hides"]:
        """Whether more than half is recovered of what the attack gets undefended beyond the mean image."""
        if not self.calibrated or self.value is None or self.undefended is None:
            return "uncalibrated"
        floor = self.floor or 0.0
        return "leaks" if self.value - floor > (self.undefended - floor) / 2 else "hides"
