"""Weights on the wire: handed from client to client, or averaged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from splitbench.core.party import SERVER, Party, client
from splitbench.core.wire import Message, Wire


def send_weights(stage: nn.Module, wire: Wire, step: int, sender: Party, receiver: Party, cut: int = 0) -> list[Tensor]:
    """Parameters and buffers, one message each, as they arrived."""
    state = stage.state_dict().values()
    return [wire.send(Message(step, sender, receiver, "weights", cut, tensor)).received for tensor in state]


def hand_on(stages: Sequence[nn.Module], wire: Wire, step: int, receiver: Party) -> None:
    """If another client had the turn, its weights go to the next one."""
    giver = wire.speaker
    if giver is None or giver == receiver:
        return
    for cut, stage in enumerate(stages):
        _load(stage, send_weights(stage, wire, step, giver, receiver, cut))


def average(stages: Sequence[nn.Module], shares: Sequence[float], wire: Wire, step: int) -> None:
    """Clients send their weights up, the server averages them and sends the mean down."""
    uploads = [send_weights(stage, wire, step, client(i), SERVER) for i, stage in enumerate(stages)]
    means = [_mean(tensors, shares) for tensors in zip(*uploads, strict=True)]
    for i, stage in enumerate(stages):
        _load(stage, [wire.send(Message(step, SERVER, client(i), "weights", 0, mean)).received for mean in means])


def _mean(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    stacked = torch.stack(list(tensors))
    if not stacked.is_floating_point():
        return stacked.amax(0)  # a count, of batches for example, has no mean
    weights = stacked.new_tensor(shares).view(-1, *[1] * (stacked.dim() - 1))
    return (stacked * weights).sum(0) / weights.sum()


def _load(stage: nn.Module, tensors: Sequence[Tensor]) -> None:
    for mine, theirs in zip(stage.state_dict().values(), tensors, strict=True):
        mine.copy_(theirs)
