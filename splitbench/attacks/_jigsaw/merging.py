"""Pieces of a picture, grown by merging the likeliest neighbours first, as Kruskal grows a tree.

Gallagher, "Jigsaw puzzles with pieces of unknown orientation", CVPR 2012, sections 3 and 4, with known orientation.
https://doi.org/10.1109/CVPR.2012.6247699
Departs from the paper: the gap is the mean square difference across the border and along the lines that lead to it;
a piece may at no time be larger than the frame; what does not fit is filled in hole by hole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from splitbench.attacks._jigsaw.board import Board, unfolded
from splitbench.attacks._jigsaw.borders import Candidates, candidates, gaps
from splitbench.attacks._jigsaw.filling import filled

_STRIDE = 1 << 16  # a place (row, column) is the number row * _STRIDE + column; columns may be negative
_KEEP = 24  # likely neighbours of each patch on each side
_POOLED = 8  # the same among the patches of many images


@dataclass
class Piece:
    """Tokens whose places relative to each other are known."""

    tokens: list[int]
    places: set[int]
    box: tuple[int, int, int, int]  # first and last row, first and last column


def merged(patches: Tensor, board: Board) -> Tensor:
    """(N, L): for each place of each image the patch (N, L, P) that belongs there, by borders alone."""
    keep = min(_KEEP, board.places - 1)
    if not keep:
        return torch.zeros(len(patches), 1, dtype=torch.long, device=patches.device)
    fits = gaps(patches, board).cpu().numpy()
    found = []
    # Merging is sequential, one image at a time; the gaps are not.
    for one, fit in zip(patches, fits, strict=True):
        grown = pieces(candidates(one, board, keep), board.places, (board.rows, board.columns))
        found.append(filled(fit, [laid(*piece) for piece in grown], (board.rows, board.columns)))
    return torch.from_numpy(np.stack(found)).to(patches.device)


def pooled(patches: Tensor, board: Board) -> Tensor:
    """(B * L,): for each slot of the boards of a batch the patch (B, L, P) that belongs there, row by row.

    Pieces grow from all patches of the batch, whichever row they came in. Each of the larger ones is then the row's
    of which it has most: a row keeps more of its own image than it is dealt of any other.
    """
    rows, places = len(patches), board.places
    flat = patches.flatten(0, 1)
    grown = pieces(candidates(flat, board, min(_POOLED, len(flat) - 1)), len(flat), (board.rows, board.columns))
    piece = np.empty(len(flat), dtype=np.int64)
    for number, (one, _) in enumerate(grown):
        piece[one.tokens] = number
    came = np.arange(len(flat)) // places
    votes = np.zeros((len(grown), rows))
    np.add.at(votes, (piece, came), 1)
    chosen, row = linear_sum_assignment(votes[: 2 * rows] / places, maximize=True)
    home = np.full(len(grown), -1)
    home[chosen] = row
    settled = torch.from_numpy(_settled(home[piece], came, rows, places))
    sets = unfolded(flat[settled.to(flat.device)], 0, (rows, places))
    return settled.to(flat.device).view(rows, places).gather(1, merged(sets, board)).flatten()


def _settled(home: NDArray[np.int64], came: NDArray[np.int64], rows: int, places: int) -> NDArray[np.int64]:
    """The tokens of each row, (rows * places,): those whose piece is at home there, then those that came in it."""
    taken = [list(np.flatnonzero(home == row)) for row in range(rows)]
    for token in np.flatnonzero(home < 0):
        if len(taken[came[token]]) < places:
            taken[came[token]].append(token)
            home[token] = came[token]
    rest = iter(np.flatnonzero(home < 0))
    return np.array([[*own, *(next(rest) for _ in range(places - len(own)))] for own in taken]).flatten()


def pieces(likely: Candidates, count: int, frame: tuple[int, int]) -> list[tuple[Piece, list[int]]]:
    """What `count` tokens become, the largest first, with the place of each token of each."""
    height, width = frame
    of = [Piece([token], {0}, (0, 0, 0, 0)) for token in range(count)]
    at = [0] * count
    left = count
    pairs = zip(*(part.cpu().tolist() for part in (likely.first, likely.second, likely.down)), strict=True)
    for i, j, down in pairs:
        one, other = of[i], of[j]
        if one is other:
            continue
        # How far the other has to be moved so that j comes beside i.
        shift = at[i] + (_STRIDE if down else 1) - at[j]
        if len(other.tokens) > len(one.tokens):
            one, other, shift = other, one, -shift
        by_rows, by_columns = _split(shift)
        top, bottom, first, last = one.box
        box = (
            min(top, other.box[0] + by_rows),
            max(bottom, other.box[1] + by_rows),
            min(first, other.box[2] + by_columns),
            max(last, other.box[3] + by_columns),
        )
        if box[1] - box[0] >= height or box[3] - box[2] >= width:
            continue
        moved = {place + shift for place in other.places}
        if not moved.isdisjoint(one.places):
            continue
        one.places |= moved
        one.tokens += other.tokens
        one.box = box
        for token in other.tokens:
            of[token] = one
            at[token] += shift
        left -= 1
        if left == 1:
            break
    distinct = {id(piece): piece for piece in of}.values()
    return [(piece, at) for piece in sorted(distinct, key=lambda piece: -len(piece.tokens))]


def laid(piece: Piece, at: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The tokens of a piece with their rows and columns, counted from its corner."""
    where = np.array([_split(at[token]) for token in piece.tokens], dtype=np.int64)
    where -= where.min(0)
    return np.array(piece.tokens, dtype=np.int64), where[:, 0], where[:, 1]


def _split(place: int) -> tuple[int, int]:
    row = (place + _STRIDE // 2) // _STRIDE
    return row, place - row * _STRIDE
