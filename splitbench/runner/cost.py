"""What a run costs the client, as its row tells it."""

from __future__ import annotations

import torch

from splitbench.core.count import Counter, self_test
from splitbench.core.data import as_input
from splitbench.core.party import client
from splitbench.core.randomness import generator
from splitbench.core.wire import Message, Wire
from splitbench.runner.prepare import Prepared
from splitbench.runner.train import channels_last


@torch.no_grad()
def edge_macs(prepared: Prepared) -> int:
    """Of one sample's way through the first client's layers and defense, as `profile` counts inference."""
    self_test()
    model, wire = prepared.models[0], Wire(prepared.defense, generator(prepared.spec.seed, "cost"))
    model.eval()
    z, macs = channels_last(as_input(prepared.data.train.x[:1])), 0
    for cut, (stage, owner) in enumerate(zip(model.stages, model.owners, strict=True)):
        with Counter() as counted:
            z = stage(z)
            if cut + 1 < len(model.stages):
                sender, receiver = (client(0) if p.role == "client" else p for p in model.owners[cut : cut + 2])
                z = wire.send(Message(0, sender, receiver, "smashed", cut, z)).received
        macs += counted.macs if owner.role == "client" else 0
    return macs
