"""Smashed data of any layout to images: small enough to be trained at the edge."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.layout import Layout

_ROWS = 4  # of the grid that a vector, which has no places, is laid out on


class Decoder(nn.Module):
    """Convolutions over the places of the smashed data, then all pixels of a place at once (Shi et al., 2016).

    What it works on is normalised first, so that a client gains nothing by changing the scale of what it sends. Images
    are in [0, 1]: the error that a client can cause is bounded.
    """

    def __init__(self, layout: Layout, sample: Sequence[int], width: int, blocks: int) -> None:
        super().__init__()
        channels, height, width_of_image = sample
        self.layout = layout
        self.size = (height, width_of_image)
        self.grid = layout.plane or (_ROWS, _ROWS)
        self.scale = max(math.ceil(side / places) for side, places in zip(self.size, self.grid, strict=True))
        if layout.plane is None:
            self.places = nn.Linear(math.prod(layout.shape), width * math.prod(self.grid))
        # The class token knows something of every place.
        self.prefix = nn.Linear(layout.prefix * layout.channels, width) if self._has_prefix else None
        self.enter = nn.Conv2d(width if layout.plane is None else layout.channels, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(1, width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(blocks)
        )
        self.leave = nn.Sequential(
            nn.GroupNorm(1, width),
            nn.GELU(),
            nn.Conv2d(width, channels * self.scale**2, 1),
            nn.PixelShuffle(self.scale),
        )

    @property
    def _has_prefix(self) -> bool:
        return self.layout.plane is not None and self.layout.prefix > 0

    def forward(self, z: Tensor) -> Tensor:
        z = F.layer_norm(z, z.shape[1:])
        h: Tensor = self.enter(self._maps(z))  # (N, width, rows, columns)
        if self.prefix is not None:
            h = h + self.prefix(z[:, : self.layout.prefix].flatten(1))[:, :, None, None]
        for block in self.blocks:
            h = h + block(h)
        image = self.leave(h)
        if image.shape[2:] != torch.Size(self.size):
            image = F.interpolate(image, size=self.size, mode="bilinear", align_corners=False)
        return torch.sigmoid(image)

    def _maps(self, z: Tensor) -> Tensor:
        if self.layout.kind == "maps":
            return z
        if self.layout.plane is None:
            laid_out: Tensor = self.places(z.flatten(1))
            return laid_out.reshape(len(z), -1, *self.grid)
        return z[:, self.layout.prefix :].transpose(1, 2).reshape(len(z), -1, *self.grid)
