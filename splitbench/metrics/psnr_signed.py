"""Peak signal-to-noise ratio as papers print it that score images in [-1, 1] with a peak of 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics.psnr import PSNR

_LOWER = 10 * math.log10(4)  # dB


@dataclass(frozen=True)
class PSNRSigned(Metric):
    """The peak signal-to-noise ratio for images in [-1, 1] and a peak of 1: 6.02 dB below `psnr`.

    The peak of such images is 2, so this is no PSNR; Yao et al., ICDM 2022, print it, and it belongs to the error of
    `mse_signed`.
    """

    modality: ClassVar[str | None] = "image"
    bounds: ClassVar[tuple[float, float]] = (PSNR.bounds[0] - _LOWER, PSNR.bounds[1] - _LOWER)
    tolerance: ClassVar[float] = 0.5
    on_request: ClassVar[bool] = True

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or PSNR().applies(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        return PSNR()(recovered, truth) - _LOWER
