from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch.nn.functional as F
from annotated_types import Ge
from torch import Generator

from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch
from splitbench.defenses._images.refusal import images_only

_INSTEAD = "take gaussian or dp_gaussian, which take any smashed data"


@dataclass(frozen=True)
class Blur(Defense):
    """Reduce images to an extremely low resolution before the client's first layer, in training and in inference.

    Ryoo et al., "Extreme Low Resolution Activity Recognition with Multi-Siamese Embedding Learning", 2018.
    https://arxiv.org/abs/1708.00999 The baseline Blur of Yao et al., "Privacy-Preserving Split Learning via Patch
    Shuffling over Transformers", 2022, at 1/14 of the resolution: that both sides are divided by 14 is our reading,
    which leaves 16 x 16 of 224 x 224 pixels.
    Departs from the first paper, whose networks take the small images: here they are enlarged again (bilinearly), so
    that the network stays the same.
    """

    factor: Annotated[float, Ge(1)] = 14  # each side of the image is divided by this, and is at least one pixel

    def bind(self, context: Context) -> Blur:
        images_only("blur", context.sample, _INSTEAD)
        return super().bind(context)

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        images_only("blur", batch.x.shape[1:], _INSTEAD)
        sides = batch.x.shape[2:]
        small = [max(1, round(side / self.factor)) for side in sides]
        if small == list(sides):
            return batch
        low = F.interpolate(batch.x, size=small, mode="area")
        return replace(batch, x=F.interpolate(low, size=sides, mode="bilinear", align_corners=False))
