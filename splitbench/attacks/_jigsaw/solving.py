"""Where the patches of an image were, or of the images of a batch, by several ways of looking for it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from splitbench.attacks._jigsaw.arranging import Arranger, likings
from splitbench.attacks._jigsaw.assigning import assigned, liked
from splitbench.attacks._jigsaw.board import Board, placed, unfolded
from splitbench.attacks._jigsaw.borders import energy
from splitbench.attacks._jigsaw.merging import merged, pooled
from splitbench.attacks._jigsaw.slots import Slots, slot_likings

Solver = Literal["best", "learned", "merging"]

_WEIGHTS = (0.3, 0.6, 1.0)  # of neighbours beside places: what suits differs from image to image
_CELLS = 4_000_000  # of matrices of pairs at a time


@torch.no_grad()
def solved(patches: Tensor, board: Board, network: Arranger | None, solver: Solver) -> Tensor:
    """(N, L): for each place of each image which of its patches (N, L, P) belongs there.

    Each way gives one answer, and of these each image takes the one that is best by the network's likings together
    with the borders: neither looks at the truth.
    """
    if network is None or solver == "merging":
        return merged(patches, board)
    at_a_time = max(1, _CELLS // board.places**2)
    return torch.cat([_best(part, board, network, solver) for part in torch.split(patches, at_a_time)])


def _best(patches: Tensor, board: Board, network: Arranger, solver: Solver) -> Tensor:
    grid = (board.rows, board.columns)
    unary, pairs = likings(*network(patches))
    ways = [assigned(unary, pairs, grid, weight) for weight in _WEIGHTS]
    if solver == "best":
        alone = merged(patches, board)
        ways += [alone, assigned(unary, pairs, grid, _WEIGHTS[1], alone)]

    def choice(ways: list[Tensor]) -> Tensor:
        scores = torch.stack(
            [liked(unary, pairs, grid, way).sum(1) - (energy(placed(patches, way), board) + 1e-8).log() for way in ways]
        )
        return torch.stack(ways)[scores.argmax(0), torch.arange(len(patches), device=patches.device)]

    first = choice(ways)
    # Once more from where that led: what is wrong there is often a strip that is one place off.
    return choice([first, *(assigned(unary, pairs, grid, weight, first) for weight in _WEIGHTS[1:])])


@torch.no_grad()
def unmixed(patches: Tensor, board: Board, network: Slots | None, solver: Solver) -> Tensor:
    """(B, L, P): the patches of each row's own image in their places, of rows (B, L, P) that were mixed together.

    Each image takes what is best for it, so that two may show the same patch.
    """
    alone = pooled(patches, board)[None] if network is None or solver != "learned" else None
    if network is None or solver == "merging":
        assert alone is not None
        return _in_slots(patches, alone)[0]
    grid = (board.rows, board.columns)
    unary, pairs = slot_likings(*network(patches[None]))
    ways = [assigned(unary, pairs, grid, weight) for weight in _WEIGHTS[1:]]
    if alone is not None:
        ways += [alone, assigned(unary, pairs, grid, _WEIGHTS[1], alone)]
    shown = torch.cat([_in_slots(patches, way) for way in ways])  # (ways, B, L, P)
    scores = torch.stack(
        [
            liked(unary, pairs, grid, way)[0] - (energy(rows, board) + 1e-8).log()
            for way, rows in zip(ways, shown, strict=True)
        ]
    )
    return shown[scores.argmax(0), torch.arange(len(patches), device=patches.device)]


def _in_slots(patches: Tensor, order: Tensor) -> Tensor:
    """(1, B, L, P)."""
    return unfolded(placed(patches.flatten(0, 1)[None], order), 1, patches.shape[:2])
