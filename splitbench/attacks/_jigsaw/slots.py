"""The network for rows in which the patches of several images are mixed: which row, and where in its image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._jigsaw.arranging import FEATURES, Arranger, missed
from splitbench.attacks._jigsaw.board import Board, unfolded


class Slots(Arranger):
    """Of batches of rows of patches (G, B, L, P): how likely each row and place, and each neighbour in the batch, is.

    A row holds more patches of its own image than of any other. It is looked at by itself; then each patch is compared
    with all those of a row that are likely to be the row's own.
    """

    def __init__(self, board: Board, width: int, blocks: int) -> None:
        super().__init__(board, width, blocks)
        self.own = nn.Linear(width, 1)
        self.likeness = nn.Linear(width, 2 * FEATURES)
        self.stay = nn.Parameter(torch.tensor(1.0))

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Logits of places (G, T, L), of rows (G, T, B) and of neighbours (G, 2, T, T), T being B * L."""
        h = unfolded(self.embedded(patches.flatten(0, 1)), 0, patches.shape[:2]).flatten(1, 2)
        return self.place(h), self._rows(h, patches.shape[1]), self.neighbours(h, patches.flatten(1, 2))

    def _rows(self, h: Tensor, rows: int) -> Tensor:
        """A patch goes where the likeliest of a row are like it; it does not count for itself."""
        asks, answers = self.likeness(h).chunk(2, -1)
        own = self.own(h)[..., 0]
        alike = asks @ answers.transpose(1, 2) / FEATURES**0.5 + F.logsigmoid(own)[:, None]
        itself = torch.eye(h.shape[1], dtype=torch.bool, device=h.device)
        likely = unfolded(alike.masked_fill(itself, -30.0), 2, (rows, -1)).logsumexp(-1)
        here = torch.eye(rows, device=h.device).repeat_interleave(h.shape[1] // rows, 0)
        found: Tensor = likely + here * (own + self.stay)[..., None]
        return found


def slot_likings(place: Tensor, row: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
    """As `assigned` takes them: for slots (G, T, B * L), row by row, and for neighbours."""
    unary = (row.log_softmax(-1)[..., None] + place.log_softmax(-1)[..., None, :]).flatten(2)
    both = (neighbours.log_softmax(-1) + neighbours.log_softmax(-2)) / 2
    return unary.clamp(min=-25.0), both.clamp(min=-12.0)


def slot_mistakes(logits: tuple[Tensor, Tensor, Tensor], slot: Tensor, board: Board) -> Tensor:
    """Cross-entropy of the place and the row of each patch, and of its true neighbours among all of the batch.

    `slot` (G, T): row * L + place of each patch that is given.
    """
    place, row, neighbours = logits
    rows = row.shape[-1]
    at = unfolded(slot.argsort(1), 1, (rows, board.rows, board.columns))  # the patch in each slot
    right, down = neighbours.unbind(1)
    loss = F.cross_entropy(place.flatten(0, 1), (slot % board.places).flatten())
    loss = loss + F.cross_entropy(row.flatten(0, 1), (slot // board.places).flatten())
    sides = [(right, at[..., :-1], at[..., 1:]), (down, at[..., :-1, :], at[..., 1:, :])]
    for side, first, second in sides:
        one, other = first.flatten(1), second.flatten(1)
        loss = loss + missed(side, one, other) / 2 + missed(side.transpose(1, 2), other, one) / 2
    return loss
