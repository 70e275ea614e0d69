"""Public images as the attacker would recover them, without end: what arrangers learn from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from splitbench.attacks._jigsaw.board import Board
from splitbench.attacks._jigsaw.ridge import Ridge

_GREY = 0.2  # share of images shown without colour
_SHIFT = 3 / 64  # of the side of an image


@dataclass(frozen=True)
class Loss:
    """What recovering does to a patch: linear, as far as it can be said, and noise of the size of the rest."""

    map: Ridge
    spread: Tensor  # (P,)

    @classmethod
    def of(cls, recovered: Tensor, x: Tensor) -> Loss:
        """From recovered patches (N, L, P) in some order of their own, and the true ones in the same."""
        fitted = Ridge.of(x, recovered)
        return cls(fitted, (recovered - fitted(x)).flatten(0, -2).std(0, correction=0))

    def __call__(self, patches: Tensor, generator: Generator) -> Tensor:
        """An image is as clean as it was or as bad as it comes, or between."""
        share = torch.rand(len(patches), 1, 1, generator=generator).to(patches.device)
        noise = torch.randn(patches.shape, generator=generator).to(patches.device)
        lost = self.map(patches) + self.spread * noise
        return patches + share.sqrt() * (lost - patches)


def varied(x: Tensor, generator: Generator) -> Tensor:
    """Images flipped, shifted and some of them grey."""
    x = torch.where((torch.rand(len(x), generator=generator) < 0.5).to(x.device)[:, None, None, None], x.flip(-1), x)
    if x.shape[1] == 3:
        grey = (torch.rand(len(x), generator=generator) < _GREY).to(x.device)[:, None, None, None]
        x = torch.where(grey, x.mean(1, keepdim=True).expand_as(x), x)
    return _shifted(x, generator)


def _shifted(x: Tensor, generator: Generator) -> Tensor:
    """By whole pixels, the edge repeated."""
    height, width = x.shape[2:]
    down, across = max(1, round(_SHIFT * height)), max(1, round(_SHIFT * width))
    padded = F.pad(x, (across, across, down, down), mode="replicate")
    by = torch.randint(0, 2 * down + 1, (len(x), 1), generator=generator) + torch.arange(height)
    beside = torch.randint(0, 2 * across + 1, (len(x), 1), generator=generator) + torch.arange(width)
    samples = torch.arange(len(x))[:, None, None]
    chosen = padded.permute(0, 2, 3, 1)[samples.to(x.device), by[:, :, None].to(x.device), beside[:, None].to(x.device)]
    return chosen.permute(0, 3, 1, 2)


def examples(x: Tensor, board: Board, loss: Loss, generator: Generator) -> Tensor:
    """Patches (N, L, P) of images, place by place."""
    return loss(board.patches(varied(x, generator)), generator)
