"""The client's half of an exchange: send smashed data, and learn from the gradient that comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.party import SERVER, Party, client
from splitbench.core.topology import Batch
from splitbench.core.wire import Message, Wire


@dataclass(frozen=True)
class Upload:
    """What a client sent, and what it keeps until the gradient comes back."""

    stage: nn.Module
    y: Tensor  # stays here unless `send_labels` is called
    message: Message  # as it arrived: its tensor is a leaf of the receiver's graph
    sent: Tensor
    penalty: Tensor | None


def send_smashed(
    stage: nn.Module, batch: Batch, wire: Wire, step: int, receiver: Party = SERVER, share: float = 1.0
) -> Upload:
    if wire.defense.mixes and receiver == SERVER:
        raise SplitbenchError("a defense that mixes clients needs them in the same step; use parallel or splitfed")
    party = client(batch.client)
    defense = wire.defense_of(party)
    x, y = defense.inputs(batch.x, batch.y, wire.generator)
    z = stage(x)
    penalty = defense.penalty(x, z)
    message = Message(step, party, receiver, "smashed", 0, z, batch.samples, share)
    sent, received = wire.send(message)
    return Upload(stage, y, message.carrying(received), sent, penalty)


def send_labels(upload: Upload, wire: Wire) -> Message:
    """The labels as they arrived."""
    label = replace(upload.message, kind="label", tensor=upload.y)
    return label.carrying(wire.send(label).received)


def return_gradient(upload: Upload, wire: Wire) -> None:
    """From the receiver of the smashed data, whose backward pass is done, to the client, who now runs its own."""
    smashed = upload.message
    roots: list[Tensor] = []
    slopes: list[Tensor | None] = []
    # A client whose layers are frozen, or whose defense sends something unrelated, has no use for a gradient.
    if upload.sent.requires_grad and smashed.tensor.grad is not None:
        to, fro = smashed.receiver, smashed.sender
        back = replace(smashed, sender=to, receiver=fro, kind="gradient", tensor=smashed.tensor.grad)
        roots.append(upload.sent)
        slopes.append(wire.send(back).received)
    if upload.penalty is not None and upload.penalty.requires_grad:
        roots.append(upload.penalty)
        slopes.append(None)
    if roots:
        torch.autograd.backward(roots, slopes)
    wire.defense_of(smashed.sender).gradients(upload.stage, wire.generator)
