"""A client's layers with a place between them where tokens can be put into another order."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Reordered(nn.Module):
    """Layers that make tokens (N, prefix + L, D), and layers that take them in any order."""

    def __init__(self, front: nn.Module, back: nn.Module, prefix: int = 0) -> None:
        super().__init__()
        self.front, self.back, self.prefix = front, back, prefix

    def forward(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        """`order` (N, L) says for each place which of the batch's N * L tokens is put there; none: as they are."""
        tokens = self.front(x)
        if order is not None:
            ahead, rest = tokens[:, : self.prefix], tokens[:, self.prefix :]
            moved = rest.reshape(-1, rest.shape[-1])[order.to(rest.device)]
            tokens = torch.cat((ahead, moved), 1) if self.prefix else moved
        z: Tensor = self.back(tokens)
        return z
