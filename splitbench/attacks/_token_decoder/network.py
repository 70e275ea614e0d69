"""A transformer from tokens to images, in the manner of a masked autoencoder's decoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._token_decoder.places import Places


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and beside what it changes."""

    def __init__(self, width: int, heads: int, ratio: float) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        hidden = max(1, round(ratio * width))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.before_attention(x)).unflatten(-1, (3, self.heads, -1))  # (N, L, 3, heads, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        changed: Tensor = x + self.mlp(self.before_mlp(x))
        return changed


class TokenDecoder(nn.Module):
    """A linear layer, learned positions, blocks, and a linear layer to the pixels of each patch, then Tanh."""

    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        places: Places,
        shape: Sequence[int],
        width: int,
        blocks: int,
        heads: int,
        ratio: float,
    ) -> None:
        """For images of `shape` (C, H, W). Initialised from torch's global generator."""
        super().__init__()
        self.places, self.shape = places, tuple(shape)
        self.grid = places.tiles(shape)
        self.tile = -(-shape[1] // self.grid[0]), -(-shape[2] // self.grid[1])
        # Tokens that lie on no grid are looked at by one mask token for each patch, as a masked autoencoder has them.
        written = self.grid[0] * self.grid[1]
        self.masks = 0 if places.grid is not None else written
        self.register_buffer("centre", torch.zeros(places.width))
        self.register_buffer("scale", torch.ones(places.width))
        self.embed = nn.Linear(places.width, width)
        self.mask = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, places.tokens + self.masks, width))
        self.blocks = nn.Sequential(*(Block(width, heads, ratio) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.pixels = nn.Linear(width, shape[0] * self.tile[0] * self.tile[1])

    def standardise(self, z: Tensor) -> None:
        """Take the means and scales of the channels from these smashed data."""
        rows = self.places(z).flatten(0, 1)
        spread = rows.std(0, correction=0)
        self.centre.copy_(rows.mean(0))
        # A channel that is silent here says nothing, however loud it is elsewhere.
        self.scale.copy_(spread.masked_fill(spread <= 1e-4 * spread.max(), torch.inf))

    def forward(self, z: Tensor) -> Tensor:
        """Images (N, C, H, W) in [-1, 1]."""
        h = self.embed((self.places(z) - self.centre) / self.scale)
        if self.masks:
            h = torch.cat((h, self.mask.expand(len(h), self.masks, -1)), 1)
        h = self.norm(self.blocks(h + self.positions))
        first = self.places.tokens if self.masks else self.places.prefix
        patches = torch.tanh(self.pixels(h[:, first:]))
        return self._image(patches)

    def _image(self, patches: Tensor) -> Tensor:
        """Patches put in their places; where they cover more than the image, it is cut out of them."""
        (rows, columns), (p, q) = self.grid, self.tile
        tiles = patches.reshape(len(patches), rows, columns, self.shape[0], p, q).permute(0, 3, 1, 4, 2, 5)
        whole = tiles.reshape(len(patches), self.shape[0], rows * p, columns * q)
        return (
            F.interpolate(whole, self.shape[1:], mode="bilinear", align_corners=False, antialias=True)
            if (whole.shape[2:] != self.shape[1:])
            else whole
        )
