"""What a run costs the client, as its row reports it."""

from __future__ import annotations

import torch

from splitbench.core.count import Counter, self_test
from splitbench.core.member import Batch
from splitbench.core.message import About, Message
from splitbench.core.party import client
from splitbench.core.randomness import generator
from splitbench.core.wire import Wire
from splitbench.runner.prepare import Prepared, given


@torch.no_grad()
def edge_macs(prepared: Prepared) -> int:
    """Of one sample's way through the first client's layers and defense, as `profile` counts inference."""
    self_test()
    model, me, wire = prepared.models[0], prepared.members[client(0)], Wire()
    draws = generator(prepared.spec.seed, "cost")
    model.eval()
    rows = torch.arange(1)
    batch = Batch(given(prepared.data.train.x[:1]), rows, About.plain(0, rows), learning=False)
    macs: int = 0
    with Counter() as counted:
        begun = me.defense.inputs(batch, draws).given
        z = begun[0]
    macs += counted.macs
    for cut, (stage, owner) in enumerate(zip(model.stages, model.owners, strict=True)):
        with Counter() as counted:
            z = stage(*begun) if cut == 0 else stage(z)
            if cut + 1 < len(model.stages):
                message = Message(owner, model.owners[cut + 1], "smashed", z, cut)
                z = wire.carry(me.defense.outgoing(message, draws) if owner == me.party else message).tensor
        macs += counted.macs if owner == me.party else 0
    return macs
