"""Pieces laid into the frame, and its holes filled with what is left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]
Laid = tuple[Ints, Ints, Ints]  # tokens, and their rows and columns

_OFFSETS = 64  # of the largest piece in the frame that are tried


class Frame:
    """A board that is being filled: what is where, and what each token would cost in each hole."""

    def __init__(self, gaps: Floats, grid: tuple[int, int]) -> None:
        """`gaps` (2, T, T) of every two tokens, if the second is to the right of the first, and if it is below."""
        self.rows, self.columns = grid
        self.gaps = gaps
        count = gaps.shape[1]
        self.tokens = np.full(self.rows * self.columns, -1, dtype=np.int64)
        self.cost = np.zeros((self.rows * self.columns, count))
        self.beside = np.zeros(self.rows * self.columns, dtype=np.int64)  # neighbours that are there already
        self.free = np.ones(count, dtype=bool)
        self.total = 0.0

    def put(self, token: int, place: int) -> None:
        self.total += self.cost[place, token]
        self.tokens[place], self.free[token] = token, False
        row, column = divmod(place, self.columns)
        right, down = self.gaps
        if column + 1 < self.columns:
            self._expects(place + 1, right[token])
        if column:
            self._expects(place - 1, right[:, token])
        if row + 1 < self.rows:
            self._expects(place + self.columns, down[token])
        if row:
            self._expects(place - self.columns, down[:, token])

    def _expects(self, place: int, costs: Floats) -> None:
        self.cost[place] += costs
        self.beside[place] += 1

    def lay(self, laid: Laid, row: int, column: int) -> None:
        for token, place in zip(laid[0], (laid[1] + row) * self.columns + laid[2] + column, strict=True):
            self.put(int(token), int(place))

    def fit(self, laid: Laid) -> tuple[int, int] | None:
        """Where a piece touches what is there and continues it best; None where it cannot."""
        tokens, rows, columns = laid
        tops = np.arange(self.rows - int(rows.max()))[:, None, None]
        lefts = np.arange(self.columns - int(columns.max()))[None, :, None]
        places = (rows + tops) * self.columns + columns + lefts  # (tops, lefts, tokens)
        beside = self.beside[places].sum(-1)
        possible = (self.tokens[places] < 0).all(-1) & (beside > 0)
        if not possible.any():
            return None
        cost = np.where(possible, self.cost[places, tokens].sum(-1) / np.maximum(beside, 1), np.inf)
        row, column = np.unravel_index(int(cost.argmin()), cost.shape)
        return int(row), int(column)

    def fill(self) -> None:
        """The hole with most neighbours first, with the token that costs least there."""
        holes = np.flatnonzero(self.tokens < 0)
        for _ in range(len(holes)):
            holes = holes[self.tokens[holes] < 0]
            most = self.beside[holes]
            among = holes[most == most.max()]
            free = np.flatnonzero(self.free)
            costs = self.cost[np.ix_(among, free)]
            hole, token = divmod(int(costs.argmin()), len(free))
            self.put(int(free[token]), int(among[hole]))


def filled(gaps: Floats, pieces: Sequence[Laid], grid: tuple[int, int]) -> Ints:
    """For each place of the board the token that is there, with the largest piece wherever the borders fit best."""
    largest, *others = pieces
    down, across = grid[0] - int(largest[1].max()), grid[1] - int(largest[2].max())
    best, found = np.inf, None
    for offset in range(min(down * across, _OFFSETS)):
        frame = Frame(gaps, grid)
        frame.lay(largest, *divmod(offset, across))
        for piece in others:
            if len(piece[0]) > 1 and (where := frame.fit(piece)) is not None:
                frame.lay(piece, *where)
        frame.fill()
        if frame.total < best:
            best, found = frame.total, frame.tokens
    assert found is not None
    return found
