from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Lt
from torch import Tensor

from splitbench.core.defense import Defense
from splitbench.defenses._penalties.distance_correlation import distance_correlation


@dataclass(frozen=True)
class DCOR(Defense):
    """Trade the task against the distance correlation of an input and its smashed data: (1 - a) CE + a dCor.

    Vepakomma et al., "Reducing leakage in distributed deep learning for sensitive health data", 2019, is where the
    term is from. Table 1 of SEAL has the columns NoPeekNN and DCOR and defines neither, nor gives a weight: that DCOR
    is this convex form, and NoPeekNN the CE + weight * dCor of `nopeek`, is our reading.
    Departs from the form: a defense adds to the task's loss and cannot shrink it, so the loss is
    CE + a / (1 - a) dCor. It has the same minima, and its gradients, the server's too, are 1 / (1 - a) times the
    form's: under SGD take a rate of (1 - a) times the form's, under Adam the same. `dcor` with weight a is `nopeek`
    with a / (1 - a).
    """

    weight: Annotated[float, Ge(0), Lt(1)] = 0.5  # the share a of the distance correlation; the task has the rest

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        return self.weight / (1 - self.weight) * distance_correlation(x, z) if self.weight else None
