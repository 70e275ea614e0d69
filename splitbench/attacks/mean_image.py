"""A floor: the mean of the auxiliary images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.attacks._floors.floor import Floor
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary


@dataclass(frozen=True)
class MeanImage(Floor):
    """A floor: guess the mean of the auxiliary images, the best in squared error for who sees nothing."""

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)

    def guess(self, count: int, shape: tuple[int, ...], auxiliary: Auxiliary | None, labels: Tensor | None) -> Tensor:
        assert auxiliary is not None
        return auxiliary.x.mean(0).expand(count, *shape).clone()
