"""A transformer from tokens to the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._token_decoder.network import Block
from splitbench.attacks._token_decoder.places import Places
from splitbench.core.data import Field


class RowDecoder(nn.Module):
    """Attention among the tokens received, then for each field a perceptron: a number, or a score of every category."""

    centre: Tensor
    scale: Tensor

    def __init__(self, places: Places, fields: Sequence[Field], width: int, blocks: int, heads: int) -> None:
        """Initialised from torch's global generator."""
        super().__init__()
        self.places, self.fields = places, tuple(fields)
        # One token for each field is read as it is; of any other number, fields get mask tokens that look at them.
        self.masks = 0 if places.tokens == len(fields) else len(fields)
        self.register_buffer("centre", torch.zeros(places.tokens, places.width))
        self.register_buffer("scale", torch.ones(places.tokens, places.width))
        self.embed = nn.Linear(places.width, width)
        self.mask = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, places.tokens + self.masks, width))
        self.blocks = nn.Sequential(*(Block(width, heads, 2.0) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.heads = nn.ModuleList(nn.Linear(width, max(1, field.categories)) for field in fields)

    def standardise(self, z: Tensor) -> None:
        """Take the means and scales of every place from these smashed data."""
        tokens = self.places(z)
        spread = tokens.std(0, correction=0)
        self.centre.copy_(tokens.mean(0))
        # A place that is silent here says nothing, however loud others are.
        self.scale.copy_(spread.masked_fill(spread <= 1e-4 * spread.max(), torch.inf))

    def forward(self, z: Tensor) -> list[Tensor]:
        """For each field (N, 1) or (N, categories)."""
        h = self.embed((self.places(z) - self.centre) / self.scale)
        if self.masks:
            h = torch.cat((h, self.mask.expand(len(h), self.masks, -1)), 1)
        h = self.norm(self.blocks(h + self.positions))
        read = h[:, self.places.tokens if self.masks else 0 :]
        return [head(read[:, at]) for at, head in enumerate(self.heads)]

    def loss(self, z: Tensor, x: Tensor) -> Tensor:
        """Squared error of numbers and cross-entropy of categories, each field counting the same."""
        answers = zip(self.fields, self(z), x.unbind(1), strict=True)
        return torch.stack([_loss(field, answer, true) for field, answer, true in answers]).mean()

    def rows(self, z: Tensor) -> Tensor:
        """(N, F): the number, or the likeliest category."""
        answers = zip(self.fields, self(z), strict=True)
        return torch.stack(
            [answer.argmax(1).float() if field.categories else answer[:, 0] for field, answer in answers], 1
        )


def _loss(field: Field, answer: Tensor, true: Tensor) -> Tensor:
    return F.cross_entropy(answer, true.long()) if field.categories else F.mse_loss(answer[:, 0], true)
