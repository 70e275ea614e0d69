"""Structural similarity, whatever the order of the patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked
from splitbench.metrics._patches import indivisible, reassigned
from splitbench.metrics.ssim import SSIM


@dataclass(frozen=True)
class PatchSSIM(Metric):
    """The structural similarity of each image after its patches were put where they fit best.

    What an attack knows of the patches, apart from their order; places as in `patch_mse`, similarity as in `ssim`,
    whose windows reach across the borders of patches.
    """

    modality: ClassVar[str | None] = "image"
    on_request: ClassVar[bool] = True  # it is about patches, of a size that somebody has to say
    version: ClassVar[int | str] = SSIM.version
    bounds: ClassVar[tuple[float, float]] = SSIM.bounds

    patch: Annotated[int, Ge(1)] = 8  # side of a patch in pixels

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or SSIM().applies(truth) or indivisible(truth, self.patch)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values)
        return SSIM()(reassigned(recovered, true, self.patch), truth)
