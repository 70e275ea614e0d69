"""A floor: the mean of the auxiliary images of the target's class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.attacks._floors.floor import Blind, Floor, alike
from splitbench.core.threat import ANY, ThreatModel


@dataclass(frozen=True)
class ClassMean(Floor):
    """A floor: guess the mean of the auxiliary images with the target's label, of all if none has it.

    For attributes, of those that agree with the target in most of them.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY, labels=True, auxiliary=1)

    @property
    def uses_public_labels(self) -> bool:
        return True

    def guess(self, blind: Blind) -> Tensor:
        assert blind.auxiliary is not None
        assert blind.labels is not None
        return (alike(blind.labels, blind.auxiliary) @ blind.auxiliary.x.flatten(1)).reshape(blind.count, *blind.shape)
