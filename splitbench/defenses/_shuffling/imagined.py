"""Shuffling as an adversary imagines it: its own tokens in an order that it drew itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from splitbench.core.imagined import Imagined

Orders = Callable[[int, int, Generator | None], Tensor]


@dataclass(frozen=True)
class Shuffled(Imagined):
    """There is no secret to know: permutations are drawn anew for every message. So `exact` is `family` here."""

    prefix: int
    order: Orders

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        ahead, rest = z[:, : self.prefix], z[:, self.prefix :]
        order = self.order(len(z), rest.shape[1], generator).to(z.device)
        return torch.cat((ahead, rest.flatten(0, 1)[order]), 1)

    def merge(self, rounds: Tensor) -> Tensor:
        # Each round has another order, so that a mean over rounds is of tokens that do not belong together.
        return rounds[0]
