"""A floor: the mean of the auxiliary images of the target's class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.attacks._floors.floor import Floor, alike
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary


@dataclass(frozen=True)
class ClassMean(Floor):
    """A floor: guess the mean of the auxiliary images with the target's label, of all if none has it.

    For attributes, of those that agree with the target in most of them.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(labels=True, auxiliary=1)

    def guess(self, count: int, shape: tuple[int, ...], auxiliary: Auxiliary | None, labels: Tensor | None) -> Tensor:
        assert auxiliary is not None
        assert labels is not None
        return (alike(labels, auxiliary) @ auxiliary.x.flatten(1)).reshape(count, *shape)
