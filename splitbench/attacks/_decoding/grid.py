"""Smashed data of any shape as feature maps, laid out as the image is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from splitbench.core.layout import Layout, by_rank
from splitbench.core.view import View


@dataclass(frozen=True)
class Grid:
    """How smashed data of one shape lie over an image: `channels` values at each of `height` x `width` places."""

    channels: int
    height: int
    width: int
    prefix: int = 0  # tokens before the first that stands for a place
    tokens: bool = False
    shape: tuple[int, ...] = field(default=(), compare=False)  # of one sample as it is sent

    @classmethod
    def of(cls, layout: Layout) -> Grid:
        """Maps and tokens that lie over the image as they do; anything else as one place."""
        if layout.plane is None:
            return cls(math.prod(layout.shape), 1, 1, shape=layout.shape)
        height, width = layout.plane
        return cls(layout.channels, height, width, layout.prefix, layout.kind == "tokens", layout.shape)

    @classmethod
    def of_view(cls, view: View) -> Grid:
        """Of what reaches the adversary."""
        return cls.of(view.layout or by_rank(view.merged.shape[1:]))

    def maps(self, z: Tensor) -> Tensor:
        """(N, C, H, W)."""
        if self.tokens:
            z = z[:, self.prefix :].transpose(1, 2)
        return z.reshape(len(z), self.channels, self.height, self.width).float()

    def smashed(self, maps: Tensor) -> Tensor:
        """The inverse of `maps`: in the shape that is sent. Tokens that stand for no place are zero."""
        if self.tokens:
            return F.pad(maps.flatten(2).transpose(1, 2), (0, 0, self.prefix, 0))
        return maps.reshape(len(maps), *self.shape)

    def tile(self, image: Sequence[int]) -> tuple[int, int]:
        """How many pixels one place stands for, rounded up."""
        return -(-image[1] // self.height), -(-image[2] // self.width)


def resized(x: Tensor, size: Sequence[int]) -> Tensor:
    """Images of another size, where a decoder's is not a multiple of the grid's."""
    if x.shape[-2:] == tuple(size):
        return x
    return F.interpolate(x, (size[0], size[1]), mode="bilinear", align_corners=False, antialias=True)
