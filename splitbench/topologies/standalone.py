from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from splitbench.core.party import client
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch, Loss, Topology
from splitbench.core.wire import Wire
from splitbench.topologies._batches import side_by_side
from splitbench.topologies._layout import one_each


@dataclass(frozen=True)
class Standalone(Topology):
    """No split learning: each client trains a whole network on its own data, and nothing crosses.

    The baseline of "Patch-Wise Random and Noisy CutMix for Privacy-Preserving Split Learning with Vision
    Transformer", table 3. A defense's inputs and gradients apply; there is no smashed data to defend or penalise.
    """

    cuts: ClassVar[int] = 0
    shares_labels: ClassVar[bool] = False

    def lay_out(self, model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
        return one_each(model, clients)

    def steps(self, sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[list[tuple[int, Tensor]]]:
        return side_by_side(sizes, batch, generator)

    def exchange(
        self,
        models: Sequence[SplitModel],
        batches: Sequence[Batch],
        wire: Wire,
        loss: Loss,
        step: int,
        shares: Sequence[float],
    ) -> float:
        weighted = 0.0
        for batch in batches:
            (network,) = models[batch.client].stages
            defense = wire.defense_of(client(batch.client))
            x, y = defense.inputs(batch.x, batch.y, wire.generator)
            value = loss(network(x), y)
            value.backward()  # type: ignore[no-untyped-call]
            defense.gradients(network, wire.generator)
            weighted += shares[batch.client] * value.item()
        return weighted / sum(shares[batch.client] for batch in batches)
