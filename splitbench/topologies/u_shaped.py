from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Batch, Client, Server
from splitbench.core.party import SERVER, Party
from splitbench.core.schedule import Program, Receive, Send
from splitbench.topologies._programs.in_turn import InTurn


@dataclass(frozen=True)
class UShaped(InTurn):
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

    def exchange(self, me: Client, batch: Batch) -> Program:
        upload = me.smash(batch)
        yield Send(upload.smashed)
        features = me.defense.incoming((yield Receive(SERVER, "smashed", cut=1)))
        value = me.loss(me.forward(me.stages[1], features.tensor), upload.label.tensor)
        if me.frozen:
            (back,) = torch.autograd.grad(value, [features.tensor])
        else:
            value.backward()  # type: ignore[no-untyped-call]
            assert features.tensor.grad is not None
            back = features.tensor.grad
        me.report(value)
        yield Send(me.defense.outgoing(features.reply("gradient", back), me.noise))
        gradient = (yield Receive(SERVER, "gradient")) if upload.smashed.answer else None
        me.learn(upload, gradient)

    def answer(self, me: Server, senders: Sequence[Party]) -> Program:
        (client,) = senders
        smashed = yield Receive(client, "smashed")
        me.begin_step()
        out = me.forward(me.stages[0], smashed.tensor)
        yield Send(replace(smashed.reply("smashed", out), cut=1))
        slope = yield Receive(client, "gradient", cut=1)
        gradient: Tensor | None
        if me.frozen:
            (gradient,) = torch.autograd.grad(out, [smashed.tensor], slope.tensor, allow_unused=True)
        else:
            torch.autograd.backward(out, slope.tensor)
            gradient = smashed.tensor.grad
        me.end_step()
        if smashed.answer and gradient is not None:
            yield Send(smashed.reply("gradient", gradient))
