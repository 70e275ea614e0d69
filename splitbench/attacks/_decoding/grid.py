"""Smashed data of any shape as feature maps, laid out as the image is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from splitbench.core.errors import SplitbenchError

# A class token, a distillation token, up to four registers: more is not a prefix any more.
_PREFIX = 5


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
    def of(cls, smashed: Sequence[int], image: Sequence[int]) -> Grid:
        """Maps (C, H, W) as they are; tokens (L, D) in rows if they tile the image; anything else as one place."""
        if not smashed or len(image) != 3:
            raise SplitbenchError(f"cannot lay smashed data of shape {tuple(smashed)} over an input of {tuple(image)}")
        if len(smashed) == 3:
            channels, height, width = smashed
            return cls(channels, height, width, shape=tuple(smashed))
        if len(smashed) == 2:
            length, channels = smashed
            for prefix in range(min(_PREFIX, length - 1) + 1):
                height = math.isqrt((length - prefix) * image[1] // image[2])
                width = (length - prefix) // max(height, 1)
                if height * width == length - prefix and height * image[2] == width * image[1]:
                    return cls(channels, height, width, prefix, tokens=True, shape=tuple(smashed))
        return cls(math.prod(smashed), 1, 1, shape=tuple(smashed))

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
