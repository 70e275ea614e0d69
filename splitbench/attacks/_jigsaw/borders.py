"""How well two patches continue each other across the border between them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.attacks._jigsaw.board import Board, unfolded

_CELLS = 20_000_000  # of a matrix of gaps at a time


@dataclass(frozen=True)
class Sides:
    """What each patch expects on either side of its borders, (..., L, E).

    A gap is the squared distance of `right` of one patch to `left` of the other, or of `down` to `up`.
    """

    right: Tensor
    left: Tensor
    down: Tensor
    up: Tensor

    @classmethod
    def of(cls, patches: Tensor, board: Board) -> Sides:
        """Of patches (..., L, P): the line through the last two pixels, prolonged to the border."""
        tiles = board.tiles(patches)
        _, height, width = board.patch
        # A patch of one pixel has no line to prolong.
        over, below = min(1, width - 1), min(1, height - 1)
        right, right2 = tiles[..., -1], tiles[..., -1 - over]
        left, left2 = tiles[..., 0], tiles[..., over]
        down, down2 = tiles[..., -1, :], tiles[..., -1 - below, :]
        up, up2 = tiles[..., 0, :], tiles[..., below, :]
        return cls(
            (1.5 * right - 0.5 * right2).flatten(-2),
            (1.5 * left - 0.5 * left2).flatten(-2),
            (1.5 * down - 0.5 * down2).flatten(-2),
            (1.5 * up - 0.5 * up2).flatten(-2),
        )

    def pairs(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        return (self.right, self.left), (self.down, self.up)


def gaps(patches: Tensor, board: Board) -> Tensor:
    """(..., 2, L, L): of every two patches, the gap if the second is to the right of the first, and if it is below."""
    return torch.stack([distances(a, b) for a, b in Sides.of(patches, board).pairs()], -3)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Mean squares, (..., L, M); by the product, which is several times as fast as pair by pair."""
    squares = a.square().sum(-1)[..., None] + b.square().sum(-1)[..., None, :] - 2 * (a @ b.transpose(-1, -2))
    return squares.clamp_(min=0) / a.shape[-1]


def energy(patches: Tensor, board: Board) -> Tensor:
    """(N,): the mean gap over all borders inside the image, of patches (N, L, P) as they are arranged."""
    grid = unfolded(patches, 1, (board.rows, board.columns))
    sides = Sides.of(grid, board)
    across = (sides.right[:, :, :-1] - sides.left[:, :, 1:]).square().mean(-1).flatten(1)
    below = (sides.down[:, :-1] - sides.up[:, 1:]).square().mean(-1).flatten(1)
    return torch.cat((across, below), 1).mean(1)


@dataclass(frozen=True)
class Candidates:
    """Pairs of patches that may be neighbours, the likeliest first. `down`: the second is below, else to the right."""

    first: Tensor
    second: Tensor
    down: Tensor


def candidates(patches: Tensor, board: Board, keep: int) -> Candidates:
    """Of patches (L, P), the `keep` best neighbours of each on each side, by how clearly they are better than others.

    A pair is judged by the ratio of its gap to the least other gap that either patch has on that side: sky fits
    everywhere.
    """
    found = [_side(a, b, min(keep, len(patches) - 1)) for a, b in Sides.of(patches, board).pairs()]
    first, second, ratio = (torch.cat(parts) for parts in zip(*found, strict=True))
    down = torch.arange(len(first), device=first.device) >= len(found[0][0])
    best = ratio.argsort()
    return Candidates(first[best], second[best], down[best])


def _side(a: Tensor, b: Tensor, keep: int) -> tuple[Tensor, Tensor, Tensor]:
    """The first and second of each pair, and the ratio."""
    forth, back = _nearest(a, b, max(2, keep)), _nearest(b, a, max(2, keep))
    count = len(a)
    rows = torch.arange(count, device=a.device)[:, None].expand_as(forth[1])
    # A pair is found from either of its ends; it is the same pair.
    pairs = torch.unique(torch.cat(((rows * count + forth[1]).flatten(), (back[1] * count + rows).flatten())))
    first, second = pairs // count, pairs % count
    gap = (a[first] - b[second]).square().mean(-1) + 1e-8
    ratio = gap / _rival(forth, first, second) + gap / _rival(back, second, first)
    return first, second, ratio


def _nearest(a: Tensor, b: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    """The least gaps of each, and with which; never with itself."""
    values, places = [], []
    for start in range(0, len(a), max(1, _CELLS // len(a))):
        part = distances(a[start : start + max(1, _CELLS // len(a))], b)
        own = torch.arange(len(part), device=a.device)
        part[own, own + start] = torch.inf
        least = part.topk(min(keep, len(b)), largest=False)
        values.append(least.values)
        places.append(least.indices)
    return torch.cat(values), torch.cat(places)


def _rival(nearest: tuple[Tensor, Tensor], of: Tensor, other: Tensor) -> Tensor:
    """The least gap that a patch has with any but the other."""
    values, places = nearest
    best = places[of, 0] == other
    return torch.where(best, values[of, 1], values[of, 0]) + 1e-8
