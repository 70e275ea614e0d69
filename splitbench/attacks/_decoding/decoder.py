"""A network that turns smashed data of any shape into images of any shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._decoding.grid import resized
from splitbench.attacks._decoding.labels import told
from splitbench.attacks._decoding.linear_inverse import LinearInverse

_TILE = 4  # pixels a side that one place of the last maps may stand for; a larger tile is first halved


class Residual(nn.Module):
    """Two convolutions that start by changing nothing, so that depth needs no normalisation to be stable."""

    def __init__(self, width: int, hidden: int, kernel: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, hidden, kernel, padding=kernel // 2)
        self.second = _silent(nn.Conv2d(hidden, width, kernel, padding=kernel // 2))

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.second(F.relu(self.first(F.relu(x))))
        return x + change


class Decoder(nn.Module):
    """Corrects the linear inverse by what residual blocks see in the features and in the linear guess.

    The maps rise by pixel shuffle until a place stands for few pixels; the blocks work there, and the last layer
    writes the pixels of each place, which is several times cheaper than working at the size of the image. Each block
    looks at a place and then at its neighbours: a tile is mostly told by its own features, which windows alone
    are slow to find out.
    """

    def __init__(self, linear: LinearInverse, width: int, blocks: int, labels: int = 0) -> None:
        """`labels`: how many numbers a label has, if it is told."""
        super().__init__()
        grid, tile = linear.grid, max(linear.tile)
        self.linear = linear
        wide = 2 * width
        self.stem = nn.Conv2d(grid.channels, wide, 1)
        rises: list[nn.Module] = []
        size = (grid.height, grid.width)
        while tile > _TILE:
            rises += [Residual(wide, width, 3), nn.Conv2d(wide, 4 * wide, 1), nn.PixelShuffle(2)]
            tile, size = -(-tile // 2), (2 * size[0], 2 * size[1])
        self.rise = nn.Sequential(*rises)
        self.tile, self.size = tile, (size[0] * tile, size[1] * tile)
        pixels = linear.shape[0] * tile**2
        self.join = nn.Conv2d(wide + pixels + bool(labels), width, 1)
        self.label = told(labels, *size)
        # Where in the image a feature stands matters: digits are centred, faces have eyes above mouths.
        self.place = nn.Parameter(torch.zeros(width, *size))
        pairs = ((Residual(width, wide, 1), Residual(width, width, 3)) for _ in range(blocks))
        self.body = nn.Sequential(*(block for pair in pairs for block in pair))
        self.head = _silent(nn.Conv2d(width, pixels, 1))

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """Images, not yet confined to [0, 1]. Labels are (N, K), one-hot or attributes."""
        guess: Tensor = self.linear(z)
        h = self.rise(self.stem(self.linear.standardised(self.linear.grid.maps(z))))
        tiles = F.pixel_unshuffle(resized(guess - self.linear.mean, self.size), self.tile)
        seen = [F.relu(h), tiles]
        if self.label is not None and labels is not None:
            seen.append(self.label(labels))
        h = self.body(self.join(torch.cat(seen, 1)) + self.place)
        return guess + resized(F.pixel_shuffle(self.head(F.relu(h)), self.tile), self.linear.shape[1:])


def _silent(layer: nn.Conv2d) -> nn.Conv2d:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer
