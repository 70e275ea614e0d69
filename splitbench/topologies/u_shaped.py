from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.party import SERVER, client
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch, Loss, Topology
from splitbench.core.wire import Message, Wire
from splitbench.topologies._batches import in_turn
from splitbench.topologies._client import return_gradient, send_smashed
from splitbench.topologies._layout import handed_round
from splitbench.topologies._weights import hand_on


@dataclass(frozen=True)
class UShaped(Topology):
    """The client keeps the first and the last layers, and with them the labels; clients take turns.

    Vepakomma et al., "Split learning for health: Distributed deep learning without sharing raw patient data", 2018,
    section 2, the configuration without label sharing. https://arxiv.org/abs/1812.00564
    """

    cuts: ClassVar[int] = 2
    shares_labels: ClassVar[bool] = False

    tail: str = ""  # where the server's layers end; empty: the last place where the model can be cut

    def places(self, cut: str, model_cuts: Sequence[str]) -> tuple[str, ...]:
        order = list(model_cuts)
        tail = self.tail or (order[-1] if order else cut)
        if tail == cut or (tail in order and cut in order and order.index(tail) < order.index(cut)):
            before = order[: order.index(tail)] if tail in order else []
            choice = f"; cut at {', '.join(before)}" if before else ""
            raise SplitbenchError(
                f"a U needs layers between its two cuts, but '{tail}' does not come after '{cut}'{choice}"
                f"{' or' if choice else ';'} set a later tail"
            )
        return cut, tail

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
        me = client(batch.client)
        bottom, body, head = models[batch.client].stages
        hand_on([bottom, head], wire, step, me)
        upload = send_smashed(bottom, batch, wire, step)
        features = Message(step, SERVER, me, "smashed", 1, body(upload.message.tensor), batch.samples)
        sent, received = wire.send(features)
        value = loss(head(received), upload.y)
        value.backward()  # type: ignore[no-untyped-call]
        assert received.grad is not None
        slope = Message(step, me, SERVER, "gradient", 1, received.grad, batch.samples)
        back = wire.send(slope).received
        if sent.requires_grad:
            torch.autograd.backward(sent, back)
        else:  # a server that tampers sent features none of its layers made, and still owes the client a gradient
            upload.message.tensor.grad = torch.zeros_like(upload.message.tensor)
        return_gradient(upload, wire)
        wire.defense_of(me).gradients(head, wire.generator)
        return value.item()
