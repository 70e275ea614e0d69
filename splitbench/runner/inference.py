"""A trained network at work: what it answers, and what its clients send for that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.member import Batch, Client
from splitbench.core.message import About, Message
from splitbench.core.party import client
from splitbench.core.wire import Wire
from splitbench.runner.prepare import Prepared, channels_last, given

BATCH = 256


@torch.no_grad()
def infer(prepared: Prepared, x: Tensor, index: int, draws: Generator) -> Tensor:
    """The network's answer to a client's samples, everything between parties passing the wire."""
    model, me, wire = prepared.models[index], prepared.members[client(index)], Wire()
    model.eval()
    outputs = []
    for rows in _batches(len(x), _together(prepared, me.defense)):
        batch = Batch(given(x[rows]), rows, About.plain(index, rows), learning=False)
        begun = me.defense.inputs(batch, draws).given
        z = begun[0]
        for cut, stage in enumerate(model.stages):
            z = stage(*begun) if cut == 0 else stage(z)
            if cut + 1 < len(model.stages):
                message = Message(model.owners[cut], model.owners[cut + 1], "smashed", z, cut)
                if message.sender == me.party:
                    message = me.defense.outgoing(message, draws)
                message = wire.carry(message)
                z = (me.defense.incoming(message) if message.receiver == me.party else message).tensor
        outputs.append(z)
    return torch.cat(outputs)


@torch.no_grad()
def smash(prepared: Prepared, x: Tensor, draws: Generator, index: int = 0) -> Tensor:
    """What a client sends for inputs of somebody else's (as a network is given them), its defense included."""
    me = prepared.members[client(index)]
    assert isinstance(me, Client)
    me.stages[0].eval()
    sent = []
    for rows in _batches(len(x), _together(prepared, me.defense)):
        part = x[rows[0] : rows[-1] + 1] if len(rows) else x[:0]  # a slice: rows are on the CPU, and `x` need not be
        batch = me.defense.inputs(Batch(channels_last(part), rows, About.plain(index, rows)), draws)
        z = me.stages[0](*batch.given)
        message = me.defense.outgoing(Message(me.party, me.above, "smashed", z, about=batch.about), draws)
        sent.append(replace(message, about=None).tensor.detach())
    return torch.cat(sent).contiguous()


def _together(prepared: Prepared, defense: Defense) -> int:
    """How many samples go into one message: where that makes a difference, as many as in training."""
    return prepared.plan.batch if defense.joint else BATCH


def _batches(count: int, size: int) -> Iterator[Tensor]:
    """Rows in batches; one empty batch if there are none, so that shapes are still known."""
    for begin in range(0, max(1, count), size):
        yield torch.arange(begin, min(count, begin + size))
