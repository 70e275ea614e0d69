from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from splitbench.core.party import client
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch, Loss, Topology
from splitbench.core.wire import Wire
from splitbench.topologies._batches import in_turn
from splitbench.topologies._client import return_gradient, send_labels, send_smashed
from splitbench.topologies._layout import handed_round
from splitbench.topologies._server import serve
from splitbench.topologies._weights import hand_on


@dataclass(frozen=True)
class Vanilla(Topology):
    """Clients take turns with one server, each beginning with the weights of the one before.

    Gupta and Raskar, "Distributed learning of deep neural network over multiple agents", 2018, algorithms 1 and 2
    in the peer-to-peer mode. https://arxiv.org/abs/1810.06060
    Departs from the paper: a turn is a pass over all of a client's data, and an optimiser's momentum passes on with
    the weights, uncounted.
    """

    def lay_out(self, model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
        return handed_round(model, clients)

    def steps(self, sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[list[tuple[int, Tensor]]]:
        return in_turn(sizes, batch, generator)

    def exchange(
        self,
        models: Sequence[SplitModel],
        batches: Sequence[Batch],
        wire: Wire,
        loss: Loss,
        step: int,
        shares: Sequence[float],
    ) -> float:
        (batch,) = batches
        bottom, top = models[batch.client].stages
        hand_on([bottom], wire, step, client(batch.client))
        upload = send_smashed(bottom, batch, wire, step)
        labels = send_labels(upload, wire)
        value = serve(top, [upload.message], [labels], loss)
        return_gradient(upload, wire)
        return value
