from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, Tensor

from splitbench.core.party import MIXER, SERVER
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch, Loss, Topology
from splitbench.core.wire import Wire
from splitbench.topologies._batches import in_unison
from splitbench.topologies._client import return_gradient, send_labels, send_smashed
from splitbench.topologies._layout import one_each
from splitbench.topologies._mixer import serve_mixed
from splitbench.topologies._server import serve


@dataclass(frozen=True)
class Parallel(Topology):
    """Clients with layers of their own send at the same time; the server passes over all of it at once.

    "Patch-Wise Random and Noisy CutMix for Privacy-Preserving Split Learning with Vision Transformer", section 3.A,
    equations 1 to 3: the server descends sum_i d_i L_i with d_i the client's share of all data, client i its own L_i.
    With a defense that mixes, equations 7 to 11: a mixer stands between, and a group weighs what its members do.
    Departs from the paper: unequal clients, on which it is silent, all take part until the largest has shown each
    sample once. Where the server has batch norm, clients also feel each other through its statistics.
    """

    simultaneous: ClassVar[bool] = True

    def lay_out(self, model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
        return one_each(model, clients)

    def steps(self, sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[list[tuple[int, Tensor]]]:
        return in_unison(sizes, batch, generator)

    def exchange(
        self,
        models: Sequence[SplitModel],
        batches: Sequence[Batch],
        wire: Wire,
        loss: Loss,
        step: int,
        shares: Sequence[float],
    ) -> float:
        above = MIXER if wire.defense.mixes else SERVER
        uploads, labels = [], []
        for batch in batches:
            bottom = models[batch.client].stages[0]
            uploads.append(send_smashed(bottom, batch, wire, step, above, shares[batch.client]))
            labels.append(send_labels(uploads[-1], wire))
        smashed = [upload.message for upload in uploads]
        top = models[0].stages[1]
        if wire.defense.mixes:
            value = serve_mixed(top, smashed, labels, wire, loss)
        else:
            value = serve(top, smashed, labels, loss)
        for upload in uploads:
            return_gradient(upload, wire)
        return value
