"""The two layers that restructure tokens between soft splits: plain attention, and the performer's linear one."""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(width: int, hidden: int, dropout: float = 0.0) -> nn.Sequential:
    """Two linear layers with a GELU between them."""
    layers = OrderedDict(fc1=nn.Linear(width, hidden), act=nn.GELU(), fc2=nn.Linear(hidden, width))
    if dropout:
        layers["drop"] = nn.Dropout(dropout)
    return nn.Sequential(layers)


class TokenTransformer(nn.Module):
    """Attention of one head from `wide` to `width` values, then a perceptron. The values take the place of the skip
    connection around attention, since what comes in is wider than what goes out.
    """

    def __init__(self, wide: int, width: int) -> None:
        super().__init__()
        self.scale = wide**-0.5
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(width)
        self.qkv = nn.Linear(wide, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.mlp = mlp(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unsqueeze(1).chunk(3, -1)  # (N, 1, L, D), the head first
        x = (v + self.proj(F.scaled_dot_product_attention(q, k, v, scale=self.scale))).squeeze(1)
        changed: Tensor = x + self.mlp(self.norm2(x))
        return changed


class TokenPerformer(nn.Module):
    """As `TokenTransformer`, its softmax replaced by positive random features, so that it is linear in the tokens.

    Choromanski et al., "Rethinking attention with performers", 2021, section 2.3. https://arxiv.org/abs/2009.14794
    """

    w: Tensor

    def __init__(self, wide: int, width: int, dropout: float) -> None:
        super().__init__()
        features = max(1, width // 2)
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(width)
        self.kqv = nn.Linear(wide, 3 * width)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.mlp = mlp(width, width, dropout)
        # Orthogonal directions vary less than independent ones. They are drawn once and never learned.
        directions = nn.init.orthogonal_(torch.empty(features, width)) * math.sqrt(features)
        self.register_buffer("w", directions)

    def features(self, x: Tensor) -> Tensor:
        """(N, L, D) to (N, L, M): products of two such rows estimate exp of the product of the vectors."""
        exponent = x @ self.w.T - x.square().sum(-1, keepdim=True) / 2
        return exponent.exp() / math.sqrt(len(self.w))

    def forward(self, x: Tensor) -> Tensor:
        k, q, v = self.kqv(self.norm1(x)).chunk(3, -1)
        k, q = self.features(k), self.features(q)
        total = q @ k.sum(1).unsqueeze(-1)  # (N, L, 1), what softmax would divide by
        mixed = q @ (k.transpose(1, 2) @ v) / (total + 1e-8)
        x = v + self.drop(self.proj(mixed))
        changed: Tensor = x + self.mlp(self.norm2(x))
        return changed
