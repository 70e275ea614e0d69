"""Mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked, unsuitable


@dataclass(frozen=True)
class MSE(Metric):
    """The mean squared error of each image, over its pixels and channels, on the scale [0, 1]."""

    modality: ClassVar[str | None] = "image"
    leaks_when: ClassVar[Literal["high", "low"]] = "low"
    tolerance: ClassVar[float] = 0.005

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values)
        return (recovered - true).square().flatten(1).mean(1)
