"""Which token goes where, if each has a liking for places and for neighbours: graduated assignment.

Gold and Rangarajan, "A graduated assignment algorithm for graph matching", TPAMI 1996.
https://doi.org/10.1109/34.491619
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from splitbench.attacks._jigsaw.board import unfolded

Side = Callable[[Tensor], Tensor]

_ROUNDS = 40
_SWEEPS = 8  # over rows and columns in a round
_WARM, _COLD = 0.3, 4.0  # inverse temperatures, at the beginning and at the end
_GIVEN = 1.0  # the first of them where the assignment begins at one that is given
_DENSE = 384  # tokens up to which all pairs count; of more, each has this many likely neighbours on a side:
_LIKELY = 32
_TRUST = 0.5  # how much of it is kept at first; the rest is anything


def assigned(unary: Tensor, pairs: Tensor, grid: tuple[int, int], weight: float, begin: Tensor | None = None) -> Tensor:
    """(N, T): for each slot the token that is put there.

    `unary` (N, T, T) is the liking of each token for each slot; the slots are those of T / (rows * columns) boards,
    one board after another. `pairs` (N, 2, T, T) is that of every two tokens for being neighbours, the second to the
    right of the first, or below it; `weight` is what they count. Without a beginning (N, T), an assignment as this
    returns it, every token is everywhere at first.
    """
    rows, columns = grid
    soft, warm = torch.full_like(unary, 1 / unary.shape[-1]), _WARM
    if begin is not None:
        given = F.one_hot(begin, unary.shape[-1]).transpose(1, 2).to(unary.dtype)
        soft, warm = (1 - _TRUST) * soft + _TRUST * given, _GIVEN
    sides = _sides(pairs)
    for step in range(_ROUNDS):
        heat = warm * (_COLD / warm) ** (step / (_ROUNDS - 1))
        soft = _doubly(heat * (unary + weight * _messages(soft, sides, rows, columns)))
    # What the messages leave undecided, the last round has decided.
    return _hard(unary + weight * _messages(soft, sides, rows, columns) + soft.clamp(min=1e-12).log())


def _sides(pairs: Tensor) -> list[Side]:
    """What to multiply with for the neighbour to the right, to the left, below and above."""
    right, down = pairs.unbind(1)
    if len(pairs) > 1 or pairs.shape[-1] <= _DENSE:
        return [side.__matmul__ for side in (right, right.transpose(1, 2), down, down.transpose(1, 2))]
    # Less whatever is least: as good as the same constant for all, which the sweeps take out.
    both = [side[0] - side.min() for side in (right, down)]
    likely = [matrix.topk(_LIKELY, 1) for side in both for matrix in (side, side.T)]
    return [functools.partial(_few, found.indices, found.values) for found in likely]


def _few(others: Tensor, values: Tensor, soft: Tensor) -> Tensor:
    """The product with a matrix of which each row has these values, at these columns, and nothing else."""
    return F.embedding_bag(others, soft[0], per_sample_weights=values, mode="sum")[None]


def _messages(soft: Tensor, sides: list[Side], rows: int, columns: int) -> Tensor:
    """(N, T, T): how each token likes the neighbours that it would have in each slot, as things stand."""
    right, left, down, up = sides
    boards = (-1, rows, columns)
    total = F.pad(unfolded(right(soft), 2, boards)[..., 1:], (0, 1))
    total += F.pad(unfolded(left(soft), 2, boards)[..., :-1], (1, 0))
    total += F.pad(unfolded(down(soft), 2, boards)[..., 1:, :], (0, 0, 0, 1))
    total += F.pad(unfolded(up(soft), 2, boards)[..., :-1, :], (0, 0, 1, 0))
    found: Tensor = total.flatten(2)
    return found


def _doubly(score: Tensor) -> Tensor:
    """Doubly stochastic, or nearly: Sinkhorn."""
    soft = (score - score.amax(2, keepdim=True)).exp_()
    for _ in range(_SWEEPS):
        soft /= soft.sum(1, keepdim=True).clamp_(min=1e-30)
        soft /= soft.sum(2, keepdim=True).clamp_(min=1e-30)
    return soft


def _hard(score: Tensor) -> Tensor:
    """The best assignment of each sample."""
    # scipy's, a sequential algorithm for one matrix at a time.
    found = [linear_sum_assignment(one, maximize=True)[1] for one in score.transpose(1, 2).double().cpu().numpy()]
    return torch.stack([torch.from_numpy(tokens) for tokens in found]).to(score.device)


def liked(unary: Tensor, pairs: Tensor, grid: tuple[int, int], order: Tensor) -> Tensor:
    """(N, boards): how much an assignment (N, T) is liked, by a token and by a pair of neighbours on average."""
    samples = torch.arange(len(order), device=order.device)[:, None]
    slots = torch.arange(order.shape[1], device=order.device)
    boards = unfolded(order, 1, (-1, *grid))
    where = unfolded(unary[samples, order, slots], 1, (boards.shape[1], -1)).mean(-1)
    for side, first, second in ((0, boards[..., :-1], boards[..., 1:]), (1, boards[..., :-1, :], boards[..., 1:, :])):
        if first.numel():
            at = samples[:, :, None, None]
            where = where + pairs[:, side][at, first, second].flatten(2).mean(-1)
    return where
