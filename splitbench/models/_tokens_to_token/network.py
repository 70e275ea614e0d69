"""The network: soft splits and token layers, class token and positions, transformer blocks, head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.models._tokens_to_token.token_layers import TokenPerformer, TokenTransformer, mlp

WINDOWS = (7, 3, 3)  # sides of the soft splits' windows, in pixels of the image or of the image of tokens


class TokensToToken(nn.Module):
    """Images (N, C, H, W) to tokens (N, L, D): three soft splits, with a token layer after each of the first two.

    A soft split cuts overlapping windows; a token layer looks at all of them and makes each narrow; the tokens,
    put side by side as an image, are split again.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        strides: tuple[int, int, int],
        performer: bool,
        token_width: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        channels, rows, columns = shape
        splits, self.grids = [], []
        for window, stride in zip(WINDOWS, strides, strict=True):
            # Windows reach beyond the border, so that there is one for every `stride` pixels.
            splits.append(nn.Unfold(window, stride=stride, padding=2 if window == 7 else 1))
            rows, columns = rows // stride, columns // stride
            self.grids.append((rows, columns))
        self.soft_split0, self.soft_split1, self.soft_split2 = splits
        first, later = (values * window**2 for values, window in zip((channels, token_width), WINDOWS[:2], strict=True))
        self.attention1, self.attention2 = (
            TokenPerformer(wide, token_width, dropout) if performer else TokenTransformer(wide, token_width)
            for wide in (first, later)
        )
        self.project = nn.Linear(later, width)

    @property
    def grid_size(self) -> tuple[int, int]:
        """Rows and columns of the tokens that come out."""
        return self.grids[-1]

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention1(self.soft_split0(x).transpose(1, 2))
        x = self.attention2(self.soft_split1(_side_by_side(x, self.grids[0])).transpose(1, 2))
        tokens: Tensor = self.project(self.soft_split2(_side_by_side(x, self.grids[1])).transpose(1, 2))
        return tokens


def _side_by_side(tokens: Tensor, grid: tuple[int, int]) -> Tensor:
    """Tokens (N, L, D) as an image (N, D, H, W)."""
    return tokens.transpose(1, 2).reshape(tokens.shape[0], -1, *grid)


class Attention(nn.Module):
    """Attention of several heads; scores are divided by the root of the width, not of a head's width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, width**-0.5
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (N, heads, L, D) each
        mixed = F.scaled_dot_product_attention(q, k, v, scale=self.scale).transpose(1, 2).flatten(2)
        out: Tensor = self.proj(mixed)
        return out


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation and beside what it changes."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = mlp(width, ratio * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        changed: Tensor = x + self.mlp(self.norm2(x))
        return changed


class ClassToken(nn.Module):
    """The first token alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class T2TNetwork(nn.Module):
    """Parameters are called as in the published checkpoints, but for those of the token layers."""

    pos_embed: Tensor

    def __init__(self, tokens: TokensToToken, depth: int, width: int, heads: int, ratio: int, classes: int) -> None:
        super().__init__()
        self.tokens_to_token = tokens
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        # Fixed, so no parameter.
        self.register_buffer("pos_embed", sinusoids(1 + tokens.grid_size[0] * tokens.grid_size[1], width))
        self.norm_pre = nn.Identity()
        self.blocks = nn.Sequential(*(Block(width, heads, ratio) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.pool = ClassToken()
        self.head = nn.Linear(width, classes)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens_to_token(x)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        x = self.norm(self.blocks(self.norm_pre(x)))
        logits: Tensor = self.head(self.pool(x))
        return logits


def sinusoids(length: int, width: int) -> Tensor:
    """Positions (1, L, D) as sines and cosines in turn, of wavelengths from 2 pi to 20,000 pi."""
    column = torch.arange(width)
    places = torch.arange(length, dtype=torch.float64)[:, None]
    angles = places / 10_000 ** (2 * (column // 2) / width).double()
    return torch.where(column % 2 == 0, angles.sin(), angles.cos()).float()[None]
