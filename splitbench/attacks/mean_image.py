"""A floor: the mean of the auxiliary images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.attacks._floors.floor import Blind, Floor
from splitbench.core.threat import ANY, ThreatModel


@dataclass(frozen=True)
class MeanImage(Floor):
    """A floor: guess the mean of the auxiliary images, the best blind guess in squared error."""

    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY, auxiliary=1)

    def guess(self, blind: Blind) -> Tensor:
        assert blind.auxiliary is not None
        return blind.auxiliary.x.mean(0).expand(blind.count, *blind.shape).clone()
