"""Who talks to whom: one exchange, forward and backward, leaving gradients on parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from splitbench.core.component import Component
from splitbench.core.split import SplitModel
from splitbench.core.wire import Wire

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Batch:
    """One client's share of a step."""

    client: int
    x: Tensor
    y: Tensor
    samples: Tensor  # which rows of the data these are


class Topology(Component):
    """The loop, the optimisers and the epochs are shared; a topology says what is particular."""

    cuts: ClassVar[int] = 1  # how many cuts the network needs
    shares_labels: ClassVar[bool] = True  # whether the server is sent the labels
    simultaneous: ClassVar[bool] = False  # whether clients speak in the same step, which a mixer needs

    def places(self, cut: str, model_cuts: Sequence[str]) -> tuple[str, ...]:
        """Where the network is cut, given the user's choice of the first cut."""
        return (cut,)[: self.cuts]

    def lay_out(self, model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
        """One network a client; stages that are the same object are shared."""
        raise NotImplementedError

    def steps(self, sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[list[tuple[int, Tensor]]]:
        """One epoch: for each step, which clients take part and with which of their samples."""
        raise NotImplementedError

    def exchange(
        self,
        models: Sequence[SplitModel],
        batches: Sequence[Batch],
        wire: Wire,
        loss: Loss,
        step: int,
        shares: Sequence[float],
    ) -> float:
        """Forward and backward; gradients are left on the parameters. Returns the task loss."""
        raise NotImplementedError

    def close_round(self, models: Sequence[SplitModel], wire: Wire, step: int, shares: Sequence[float]) -> None:
        """After each epoch (federated averaging, say)."""
