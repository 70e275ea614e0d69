from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Tensor

from splitbench.core.defense import Defense
from splitbench.defenses._penalties.distance_correlation import distance_correlation


@dataclass(frozen=True)
class NoPeek(Defense):
    """Penalise the distance correlation between an input and its smashed data.

    Vepakomma et al., "NoPeek: Information leakage reduction to share activations in distributed deep learning",
    2020. https://arxiv.org/abs/2008.09161
    Departs from the paper, which weighs both terms: the loss is CE + weight * dCor. The 0.1 CE + 1000 dCor of the
    authors' code is ten thousand here.
    """

    weight: Annotated[float, Ge(0)] = 0.1  # of the distance correlation, beside a cross entropy of weight 1

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        return self.weight * distance_correlation(x, z) if self.weight else None
