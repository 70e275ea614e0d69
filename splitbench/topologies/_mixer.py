"""The mixer's half of an exchange: a trusted party that mixes what clients sent and divides what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from splitbench.core.party import MIXER, SERVER
from splitbench.core.topology import Loss
from splitbench.core.wire import Message, Wire
from splitbench.topologies._server import serve


def serve_mixed(
    stage: nn.Module, smashed: Sequence[Message], labels: Sequence[Message], wire: Wire, loss: Loss
) -> float:
    """As `serve`, with the mixer between; a client that the mixer left out finds no gradient on its tensor."""
    groups, targets = wire.defense.mix(smashed, labels, wire.generator)
    upward = [replace(group, sender=MIXER, receiver=SERVER) for group in groups]
    deliveries = [wire.send(message) for message in upward]
    arrived = [message.carrying(delivery.received) for message, delivery in zip(upward, deliveries, strict=True)]
    known = [replace(target, sender=MIXER, receiver=SERVER) for target in targets]
    value = serve(stage, arrived, [label.carrying(wire.send(label).received) for label in known], loss)
    sent, slopes = [], []
    for message, delivery in zip(arrived, deliveries, strict=True):
        if delivery.sent.requires_grad and message.tensor.grad is not None:
            back = replace(message, sender=SERVER, receiver=MIXER, kind="gradient", tensor=message.tensor.grad)
            sent.append(delivery.sent)
            slopes.append(wire.send(back).received)
    if sent:
        torch.autograd.backward(sent, slopes)
    return value
