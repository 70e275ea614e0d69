"""Peak signal-to-noise ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked, unsuitable

_CAP = 100.0  # dB


@dataclass(frozen=True)
class PSNR(Metric):
    """The peak signal-to-noise ratio of each image in dB, for a peak of 1.

    Departs from the definition: at most 100 dB (an error of 1e-5 per pixel), so that an image recovered exactly does
    not make every mean infinite. Take the mean of these values, never the PSNR of a mean error.
    """

    modality: ClassVar[str | None] = "image"
    bounds: ClassVar[tuple[float, float]] = (0.0, _CAP)
    tolerance: ClassVar[float] = 0.5

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values)
        error = (recovered - true).square().flatten(1).mean(1)
        return (-10 * error.log10()).clamp(max=_CAP)  # clamp keeps NaN
