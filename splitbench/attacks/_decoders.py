"""A network that turns smashed data of any shape into images of any shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._grid import resized
from splitbench.attacks._linear import LinearInverse

_TILE = 4  # pixels a side that one place of the last maps may stand for; a larger tile is first halved


class Residual(nn.Module):
    """Two convolutions that start by changing nothing, so that depth needs no normalisation to be stable."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        _silence(self.second)

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.second(F.relu(self.first(F.relu(x))))
        return x + change


class Decoder(nn.Module):
    """Corrects the linear inverse by what residual blocks see in the features and in the linear guess.

    The maps rise by pixel shuffle until a place stands for few pixels; the blocks work there, and the last layer
    writes the pixels of each place, which is several times cheaper than working at the size of the image.
    """

    def __init__(self, linear: LinearInverse, width: int, blocks: int) -> None:
        super().__init__()
        grid, tile = linear.grid, max(linear.tile)
        self.linear = linear
        self.stem = nn.Conv2d(grid.channels, width, 3, padding=1)
        rises: list[nn.Module] = []
        size = (grid.height, grid.width)
        while tile > _TILE:
            rises += [Residual(width), nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2)]
            tile, size = -(-tile // 2), (2 * size[0], 2 * size[1])
        self.rise = nn.Sequential(*rises)
        self.tile, self.size = tile, (size[0] * tile, size[1] * tile)
        pixels = linear.shape[0] * tile**2
        # Where in the image a feature stands matters: digits are centred, faces have eyes above mouths.
        self.place = nn.Parameter(torch.zeros(width, *size))
        self.join = nn.Conv2d(width + pixels, width, 3, padding=1)
        self.body = nn.Sequential(*(Residual(width) for _ in range(blocks)))
        self.head = nn.Conv2d(width, pixels, 3, padding=1)
        _silence(self.head)

    def forward(self, z: Tensor) -> Tensor:
        """Images, not yet confined to [0, 1]."""
        guess: Tensor = self.linear(z)
        h = self.rise(self.stem(self.linear.standardised(self.linear.grid.maps(z))))
        tiles = F.pixel_unshuffle(resized(guess - self.linear.mean, self.size), self.tile)
        h = self.body(self.join(torch.cat((F.relu(h), tiles), 1)) + self.place)
        return guess + resized(F.pixel_shuffle(self.head(F.relu(h)), self.tile), self.linear.shape[1:])


def _silence(layer: nn.Conv2d) -> None:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
