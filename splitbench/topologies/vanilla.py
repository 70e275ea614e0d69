from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from splitbench.core.member import Batch, Client, Server
from splitbench.core.party import SERVER, Party
from splitbench.core.schedule import Program, Receive, Send
from splitbench.topologies._programs.in_turn import InTurn


@dataclass(frozen=True)
class Vanilla(InTurn):
    """Clients take turns with one server, each beginning with the weights of the one before.

    Gupta and Raskar, "Distributed learning of deep neural network over multiple agents", 2018, algorithms 1 and 2
    in the peer-to-peer mode. https://arxiv.org/abs/1810.06060
    Departs from the paper: a turn is a pass over all of a client's data, and every client keeps an optimizer of its
    own; weights are handed on, momentum is not.
    """

    def exchange(self, me: Client, batch: Batch) -> Program:
        upload = me.smash(batch)
        yield Send(upload.smashed)
        yield Send(upload.label)
        slope = (yield Receive(SERVER, "gradient")) if upload.smashed.answer else None
        me.learn(upload, slope)

    def answer(self, me: Server, senders: Sequence[Party]) -> Program:
        (client,) = senders
        smashed = yield Receive(client, "smashed")
        label = yield Receive(client, "label")
        (slope,) = me.learn([smashed], [label])
        if smashed.answer and slope is not None:
            yield Send(smashed.reply("gradient", slope))
