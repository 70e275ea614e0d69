"""Share of patches that are in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked
from splitbench.metrics._patches import assignment, cut, indivisible

_ALIKE = 0.5 / 255  # patches of 8-bit images that differ by less are the same


@dataclass(frozen=True)
class PositionAccuracy(Metric):
    """The share of places of each image at which the guess has the right patch.

    The direct comparison of jigsaw solvers: Cho et al., "A probabilistic image jigsaw puzzle solver", CVPR 2010,
    section 5. https://doi.org/10.1109/CVPR.2010.5540212
    Which patch the guess has at a place is decided by the assignment of `patch_mse`; one that equals the right patch
    pixel by pixel is right too (two pieces of a white border). A random order has one patch in its place on average:
    1 / L of L patches.
    """

    modality: ClassVar[str | None] = "image"
    on_request: ClassVar[bool] = True  # it is about patches, of a size that somebody has to say

    patch: Annotated[int, Ge(1)] = 8  # side of a patch in pixels

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or indivisible(truth, self.patch)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = (cut(x, self.patch) for x in checked(recovered, truth.values))
        places = assignment(recovered, true)
        there = true.gather(1, places[:, :, None].expand_as(true))
        right = (there - true).abs().amax(2) < _ALIKE
        unknown = (recovered.isnan() | true.isnan()).flatten(1).any(1)
        return right.double().mean(1).masked_fill(unknown, torch.nan)
