"""The server's half of an exchange: one pass over what arrived, weighted by the senders' shares of the data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from splitbench.core.topology import Loss
from splitbench.core.wire import Message


def serve(stage: nn.Module, smashed: Sequence[Message], labels: Sequence[Message], loss: Loss) -> float:
    """Leaves the gradient of sum_i d_i L_i on the stage and that of L_i itself on the i-th smashed tensor."""
    tensors = [message.tensor for message in smashed]
    outputs = stage(tensors[0] if len(tensors) == 1 else torch.cat(tensors)).split([len(z) for z in tensors])
    total = sum(message.share for message in smashed)
    shares = [message.share / total for message in smashed]
    losses = [loss(output, label.tensor) for output, label in zip(outputs, labels, strict=True)]
    value = torch.stack(losses) @ losses[0].new_tensor(shares)
    value.backward()  # type: ignore[no-untyped-call]
    for z, share in zip(tensors, shares, strict=True):
        if z.grad is not None and share != 1:
            z.grad.div_(share)
    return value.item()
