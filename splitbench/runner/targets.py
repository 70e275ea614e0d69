"""What reaches a party about given samples, sent exactly as the protocol sends them: mixing, shuffling and all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from splitbench.core import device
from splitbench.core.errors import CellError
from splitbench.core.member import Batch, Member
from splitbench.core.message import About, Kind, Message
from splitbench.core.party import Party, client
from splitbench.core.randomness import Streams
from splitbench.core.schedule import together
from splitbench.core.wire import Wire
from splitbench.runner.parties import one_step
from splitbench.runner.prepare import Prepared, given


@dataclass(frozen=True)
class Observed:
    """The messages of some rounds that a party received, and what they are about."""

    targets: Tensor  # (R, N, ...): smashed data, or, for a client, the gradients that come back to it
    about: About  # of the first round, whose rows are the ones to recover
    messages: tuple[tuple[Message, ...], ...]  # everything, round by round
    labels: Tensor | None = None  # of the samples; None where a row is about several
    batch: int = 1  # how many were defended together


def wanted_kind(party: Party) -> Kind:
    """What a party that attacks looks at: a client is sent gradients, everybody else smashed data."""
    return "gradient" if party.role == "client" else "smashed"


def observe(prepared: Prepared, party: Party, x: Tensor, y: Tensor, samples: Tensor, rounds: int = 1) -> Observed:
    """Send samples (uint8 images, tokens or rows of a table) through the protocol, without anybody learning.

    The samples are the first client's, or those of the client that attacks; where a mixer needs everybody, they are
    dealt out to all clients. Layers are as they are at inference; every round draws anew.
    """
    members = _attending(prepared)
    victim = party if party.role == "client" else client(0)
    senders = prepared.plan.clients if prepared.plan.groups else [victim]
    seen: list[tuple[Message, ...]] = []
    for _ in range(rounds):
        heard: list[Message] = []
        for rows in _dealt(len(x), len(senders), prepared.plan.batch):
            batches = {
                one: Batch(given(x[mine]), y[mine].to(device.current()), About.plain(one.index, samples[mine]))
                for one, mine in zip(senders, rows, strict=True)
            }
            _exchange(prepared, members, batches, party, heard)
        seen.append(tuple(heard))
    kept = [[m for m in round_ if m.kind == wanted_kind(party) and m.cut == 0] for round_ in seen]
    if not all(kept):
        raise CellError(f"nothing of the kind '{wanted_kind(party)}' reaches the {party}")
    about = About.cat([m.about for m in kept[0] if m.about is not None])
    targets = torch.stack([_joined(messages) for messages in kept])
    together = prepared.plan.batch if members[victim].defense.joint else 1
    return Observed(targets, about, tuple(seen), labels_of(about, samples, y), together)


def labels_of(about: About, samples: Tensor, y: Tensor) -> Tensor | None:
    """The label of each row, given those of the samples; None where a row is about several samples."""
    if about.mixes:
        return None
    order = samples.argsort()
    return y[order[torch.searchsorted(samples[order], about.samples[:, 0].contiguous())]].to(device.current())


def _joined(messages: Sequence[Message]) -> Tensor:
    return torch.cat([m.tensor for m in messages]).contiguous()


def _attending(prepared: Prepared) -> dict[Party, Member]:
    """The parties as they are, with random numbers apart from the training's, and nothing to learn."""
    attending = {}
    for party, member in prepared.members.items():
        for stage in member.stages:
            stage.eval()
        attending[party] = replace(
            member, streams=Streams(prepared.spec.seed, party, "targets"), frozen=True, learner=None, losses=[]
        )
    return attending


def _dealt(count: int, clients: int, batch: int) -> list[list[Tensor]]:
    """For each step, the rows of each client. The first ones again where the last step would be short of some."""
    if clients == 1:
        return [[rows] for rows in torch.split(torch.arange(count), batch)]
    each = -(-count // clients)
    columns = (torch.arange(each * clients) % count).view(each, clients)  # neighbours meet in one step
    return [[part[:, at] for at in range(clients)] for part in torch.split(columns, batch)]


def _exchange(
    prepared: Prepared, members: dict[Party, Member], batches: dict[Party, Batch], party: Party, heard: list[Message]
) -> None:
    """One step of the topology; what reaches the party is added to what was heard."""

    def listen(message: Message) -> None:
        if message.receiver == party:
            heard.append(message)

    programs = one_step(prepared.topology, members, prepared.plan, batches)
    with torch.enable_grad():
        together(programs, Wire(listeners=[listen]), lambda one: members[one].at_work())
