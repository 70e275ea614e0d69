"""Weights on the wire: handed from client to client, or averaged."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from splitbench.core.member import Client, Member, Plan
from splitbench.core.message import Message
from splitbench.core.party import SERVER, Party
from splitbench.core.schedule import Program, Receive, Send


def send_weights(me: Member, receiver: Party, tensors: Sequence[Tensor]) -> Program:
    """Parameters and buffers, one message each."""
    for tensor in tensors:
        yield Send(Message(me.party, receiver, "weights", tensor.clone(), step=me.step, round=me.epoch))


def receive_weights(sender: Party, count: int) -> Program:
    """Returns the tensors."""
    found = []
    for _ in range(count):
        message = yield Receive(sender, "weights")
        found.append(message.tensor)
    return found


def hand_on(me: Client, receiver: Party) -> Program:
    yield from send_weights(me, receiver, state(me))


def take_over(me: Client, sender: Party) -> Program:
    put(me, (yield from receive_weights(sender, len(state(me)))))


def averaged(me: Client) -> Program:
    """A client's part of federated averaging: its weights go up, their mean comes down."""
    yield from send_weights(me, SERVER, state(me))
    put(me, (yield from receive_weights(SERVER, len(state(me)))))


def average(me: Member, plan: Plan) -> Program:
    """The server's part: the mean of all clients' weights, weighted by their data."""
    uploads = []
    for party in plan.clients:
        uploads.append((yield from receive_weights(party, plan.weights)))
    shares = [plan.share(party) for party in plan.clients]
    means = [_mean(tensors, shares) for tensors in zip(*uploads, strict=True)]
    for party in plan.clients:
        yield from send_weights(me, party, means)


def state(me: Member) -> list[Tensor]:
    return [tensor for stage in me.stages for tensor in stage.state_dict().values()]


@torch.no_grad()
def put(me: Member, tensors: Sequence[Tensor]) -> None:
    for mine, theirs in zip(state(me), tensors, strict=True):
        mine.copy_(theirs)


def _mean(tensors: Sequence[Tensor], shares: Sequence[float]) -> Tensor:
    stacked = torch.stack(list(tensors))
    if not stacked.is_floating_point():
        return stacked.amax(0)  # a count, of batches for example, has no mean
    weights = stacked.new_tensor(shares).view(-1, *[1] * (stacked.dim() - 1))
    return (stacked * weights).sum(0) / weights.sum()
