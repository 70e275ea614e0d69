"""A network that looks at a set of patches and says of each where it belongs and which others are its neighbours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._jigsaw.board import Board, unfolded
from splitbench.attacks._jigsaw.borders import gaps
from splitbench.core.errors import SplitbenchError

_HEADS = 4
FEATURES = 32  # of a side of a patch, by which it is compared with the opposite side of another


class Block(nn.Module):
    """Attention and two layers, each added to what was there. No positions: the set has no order."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, h: Tensor) -> Tensor:
        q, k, v = unfolded(self.query(self.before(h)), -1, (3, _HEADS, -1)).permute(2, 0, 3, 1, 4)
        looked = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        h = h + self.out(looked)
        changed: Tensor = h + self.mlp(self.between(h))
        return changed


class Arranger(nn.Module):
    """Of the patches of images (N, L, P), in any order: how likely each place and each neighbour is."""

    def __init__(self, board: Board, width: int, blocks: int) -> None:
        super().__init__()
        if width % _HEADS:
            raise SplitbenchError(f"the width of the network, {width}, is not a multiple of its {_HEADS} heads")
        self.board = board
        size = board.patch[0] * board.patch[1] * board.patch[2]
        # A patch as it is, and without its mean: shade is what clothes and light change.
        self.patch = nn.Sequential(nn.Linear(2 * size, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.place = nn.Linear(width, board.places)
        self.sides = nn.Linear(width, 4 * FEATURES)
        self.border = nn.Parameter(torch.tensor([[-1.0, -0.5, -0.5]] * 2))

    def embedded(self, patches: Tensor) -> Tensor:
        centred = patches - patches.mean(-1, keepdim=True)
        h = self.patch(torch.cat((2 * patches - 1, 4 * centred), -1))
        for block in self.blocks:
            h = block(h)
        found: Tensor = self.norm(h)
        return found

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of places (N, L, L), and of neighbours (N, 2, L, L): to the right, and below."""
        h = self.embedded(patches)
        place: Tensor = self.place(h)
        return place, self.neighbours(h, patches)

    def neighbours(self, h: Tensor, patches: Tensor) -> Tensor:
        """(N, 2, L, L), with no patch its own neighbour."""
        right, left, down, up = self.sides(h).chunk(4, -1)
        alike = torch.stack((right @ left.transpose(1, 2), down @ up.transpose(1, 2)), 1) / FEATURES**0.5
        logits = alike + _compared(gaps(patches, self.board), self.border)
        own = torch.eye(patches.shape[1], dtype=torch.bool, device=patches.device)
        masked: Tensor = logits.masked_fill(own, -30.0)
        return masked


def _compared(gap: Tensor, weight: Tensor) -> Tensor:
    """Logits from gaps (N, 2, L, L): how small each is, and beside the least that either patch has with another."""
    own = torch.eye(gap.shape[-1], dtype=torch.bool, device=gap.device)
    level = (gap + 1e-4).log()
    away = level.masked_fill(own, torch.inf)
    kinds = torch.stack((level, level - away.amin(-1, keepdim=True), level - away.amin(-2, keepdim=True)), -1)
    weighted: Tensor = (kinds * weight[:, None, None]).sum(-1)
    return weighted


def likings(place: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
    """Logits as what `assigned` takes: log-probabilities, those of neighbours seen from both sides."""
    both = (neighbours.log_softmax(-1) + neighbours.log_softmax(-2)) / 2
    return place.log_softmax(-1), both.clamp(min=-12.0)


def mistakes(place: Tensor, neighbours: Tensor, where: Tensor, board: Board) -> Tensor:
    """Cross-entropy of the place of each patch, and of the true neighbour of each on each side, found from both.

    `where` (N, L): the place of each patch that is given.
    """
    at = where.argsort(1)  # the patch at each place
    right, down = neighbours.unbind(1)
    grid = unfolded(at, 1, (board.rows, board.columns))
    sides = [
        (right, grid[:, :, :-1].flatten(1), grid[:, :, 1:].flatten(1)),
        (down, grid[:, :-1].flatten(1), grid[:, 1:].flatten(1)),
    ]
    loss = F.cross_entropy(place.flatten(0, 1), where.flatten())
    for logits, first, second in sides:
        loss = loss + missed(logits, first, second) / 2 + missed(logits.transpose(1, 2), second, first) / 2
    return loss


def missed(logits: Tensor, of: Tensor, true: Tensor) -> Tensor:
    """Cross-entropy of the `true` neighbours (N, K) of those patches (N, K)."""
    rows = logits.gather(1, of[..., None].expand(-1, -1, logits.shape[-1]))
    return F.cross_entropy(rows.flatten(0, 1), true.flatten())
