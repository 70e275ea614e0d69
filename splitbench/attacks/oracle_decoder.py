"""The upper bound: a decoder that was shown true pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from splitbench.attacks.inversion import Inversion
from splitbench.core.threat import ThreatModel


@dataclass(frozen=True)
class OracleDecoder(Inversion):
    """A bound: train a decoder on auxiliary images put through the real, defended client.

    What Xu et al. train beside FORA to know how much there is to find. https://arxiv.org/abs/2405.04115
    No attack that learns from other pairs should beat it by much; one that stays far below has not found what is there.
    """

    role: ClassVar[Literal["attack", "floor", "bound"]] = "bound"
    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, queries=1)

    def lacks(self, threat: ThreatModel) -> str | None:
        return threat.lacks(self.needs)
