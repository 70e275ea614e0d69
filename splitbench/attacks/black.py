"""A floor: black images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.attacks._floors.floor import Floor
from splitbench.core.view import Auxiliary


@dataclass(frozen=True)
class Black(Floor):
    """A floor: guess black, which already scores an SSIM of .10 on MNIST."""

    def guess(self, count: int, shape: tuple[int, ...], auxiliary: Auxiliary | None, labels: Tensor | None) -> Tensor:
        return torch.zeros(count, *shape)
