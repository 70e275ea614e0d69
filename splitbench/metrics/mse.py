"""Mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from splitbench.core.metric import Metric
from splitbench.metrics._images import checked


@dataclass(frozen=True)
class MSE(Metric):
    """The mean squared error of each image, over its pixels and channels, on the scale [0, 1]."""

    leaks_when: ClassVar[Literal["high", "low"]] = "low"
    tolerance: ClassVar[float] = 0.005

    def __call__(self, recovered: Tensor, truth: Tensor) -> Tensor:
        recovered, truth = checked(recovered, truth)
        return (recovered - truth).square().flatten(1).mean(1)
