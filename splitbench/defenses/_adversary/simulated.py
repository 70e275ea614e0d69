"""A client's own attacker: learns to invert what the client sends, and tells how far it is from it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call


class Simulated:
    """A decoder and its optimizer. Neither its training nor the client's leaves gradients on the other's weights."""

    def __init__(self, decoder: nn.Module, lr: float) -> None:
        self.decoder = decoder
        self.optimizer = torch.optim.Adam(decoder.parameters(), lr=lr)

    def learn(self, z: Tensor, x: Tensor, steps: int) -> None:
        """So many updates on pairs of smashed data and the inputs they were made of."""
        fixed = z.detach()
        for _ in range(steps):
            F.mse_loss(self.decoder(fixed), x).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)  # memory that the client needs for its own layers

    def error(self, z: Tensor, x: Tensor) -> Tensor:
        """Its mean squared error, differentiable in the smashed data alone."""
        fixed = {name: p.detach() for name, p in self.decoder.named_parameters()}
        return F.mse_loss(functional_call(self.decoder, fixed, (z,)), x)

    def holds(self) -> Iterator[Tensor]:
        """What it keeps in memory between steps: its weights, then what its optimizer remembers of each."""
        yield from self.decoder.parameters()
        for state in self.optimizer.state.values():
            yield from (value for value in state.values() if isinstance(value, Tensor))
