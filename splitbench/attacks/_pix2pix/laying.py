"""Smashed data laid out as an image of a few channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._decoding.grid import Grid, resized


class Laid(nn.Module):
    """Maps over the grid, standardised; a learned linear layer lays the values of each place over its tile of pixels.

    A place has hundreds of values and stands for as many pixels: repeated at each of them, as upsampling would, they
    make an image that is too wide for a small network.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, grid: Grid, shape: Sequence[int], channels: int) -> None:
        super().__init__()
        self.grid, self.size = grid, (shape[1], shape[2])
        self.tile = grid.tile(shape)
        self.register_buffer("centre", torch.zeros(grid.channels, 1, 1))
        self.register_buffer("scale", torch.ones(grid.channels, 1, 1))
        self.spread = nn.Conv2d(grid.channels, channels * self.tile[0] * self.tile[1], 1)

    def standardise(self, z: Tensor) -> None:
        """Take the means and scales of the channels from these smashed data."""
        maps = self.grid.maps(z)
        spread = maps.std((0, 2, 3), correction=0)
        self.centre.copy_(maps.mean((0, 2, 3))[:, None, None])
        # A channel that is silent here says nothing, however loud it is elsewhere.
        self.scale.copy_(spread.masked_fill(spread <= 1e-4 * spread.max(), torch.inf)[:, None, None])

    def forward(self, z: Tensor) -> Tensor:
        """(N, channels, H, W)."""
        values = self.spread((self.grid.maps(z) - self.centre) / self.scale)
        size = self.grid.height * self.tile[0], self.grid.width * self.tile[1]
        return resized(F.fold(values.flatten(2), size, self.tile, stride=self.tile), self.size)
