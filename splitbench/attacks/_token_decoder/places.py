"""Smashed data of any shape as tokens, each standing for a part of the image if any does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from splitbench.core.layout import Layout, by_rank
from splitbench.core.view import View

_PLACES = 128  # tokens at most that maps become: attention costs the square of them


@dataclass(frozen=True)
class Places:
    """How many tokens a sample becomes, how wide they are, and over which grid they lie."""

    tokens: int
    width: int
    prefix: int = 0  # the first ones, which stand for no place
    grid: tuple[int, int] | None = None  # rows and columns of the others over the image
    pool: int = 1  # neighbouring places of maps that make one token, along either side
    maps: tuple[int, ...] | None = None  # (C, H, W), if the smashed data are maps

    @classmethod
    def of(cls, layout: Layout) -> Places:
        """Tokens as they are, maps place by place or in squares of places, a vector as one token."""
        if layout.kind == "maps":
            channels, height, width = layout.shape
            pool = math.isqrt(math.ceil(height * width / _PLACES) - 1) + 1 if height * width > _PLACES else 1
            rows, columns = -(-height // pool), -(-width // pool)
            return cls(rows * columns, channels * pool**2, 0, (rows, columns), pool, layout.shape)
        if layout.kind == "vector":
            return cls(1, math.prod(layout.shape))
        return cls(layout.shape[0], layout.shape[1], layout.prefix, layout.grid)

    @classmethod
    def of_view(cls, view: View) -> Places:
        """Those of what reaches the adversary."""
        return cls.of(view.layout or by_rank(view.merged.shape[1:]))

    def __call__(self, z: Tensor) -> Tensor:
        """(N, L, D)."""
        if self.maps is None:
            return z.reshape(len(z), self.tokens, self.width).float()
        assert self.grid is not None
        _, height, width = self.maps
        rows, columns = self.grid
        padded = F.pad(z.float(), (0, columns * self.pool - width, 0, rows * self.pool - height))
        return F.pixel_unshuffle(padded, self.pool).flatten(2).transpose(1, 2)

    def tiles(self, image: Sequence[int]) -> tuple[int, int]:
        """The grid on which the image is written: that of the tokens, or eight by eight."""
        return self.grid or (min(8, image[1]), min(8, image[2]))
