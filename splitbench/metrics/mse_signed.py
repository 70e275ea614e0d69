"""Mean squared error on the scale of [-1, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics.mse import MSE


@dataclass(frozen=True)
class MSESigned(Metric):
    """The mean squared error of each image on the scale [-1, 1]: four times `mse`.

    For comparison with papers that print errors of images normalised so, among them Yao et al., ICDM 2022.
    """

    modality: ClassVar[str | None] = "image"
    leaks_when: ClassVar[Literal["high", "low"]] = "low"
    bounds: ClassVar[tuple[float, float]] = (0.0, 4.0)
    tolerance: ClassVar[float] = 0.02
    on_request: ClassVar[bool] = True

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or MSE().applies(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        return 4 * MSE()(recovered, truth)
