from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from splitbench.core.member import Batch, Client, Mixer, Server
from splitbench.core.message import Message
from splitbench.core.party import MIXER, SERVER, Party
from splitbench.core.schedule import Program, Receive, Send
from splitbench.topologies._programs.in_unison import InUnison


@dataclass(frozen=True)
class Parallel(InUnison):
    """Clients with layers of their own send at the same time; the server passes over all of it at once.

    "Patch-Wise Random and Noisy CutMix for Privacy-Preserving Split Learning with Vision Transformer", section 3.A,
    equations 1 to 3: the server descends sum_i d_i L_i with d_i the client's share of all data, client i its own L_i.
    With a defense that mixes, equations 7 to 11: a mixer stands between, and a group weighs what its members do.
    Departs from the paper: unequal clients, on which it is silent, all take part until the largest has shown each
    sample once. Where the server has batch norm, clients also feel each other through its statistics.
    """

    def exchange(self, me: Client, batch: Batch) -> Program:
        upload = me.smash(batch)
        yield Send(upload.smashed)
        yield Send(upload.label)
        slope = (yield Receive(me.above, "gradient")) if upload.smashed.answer else None
        me.learn(upload, slope)

    def answer(self, me: Server, senders: Sequence[Party]) -> Program:
        smashed, labels = yield from _both(senders)
        slopes = me.learn(smashed, labels)
        for message, slope in zip(smashed, slopes, strict=True):
            if message.answer and slope is not None:
                yield Send(message.reply("gradient", slope))

    def mix(self, me: Mixer, clients: Sequence[Party]) -> Program:
        smashed, labels = yield from _both(clients)
        groups, targets = me.defense.mix(smashed, labels, me.noise)
        wanted = any(message.answer for message in smashed)
        above = [replace(m, sender=MIXER, receiver=SERVER, answer=wanted and m.tensor.requires_grad) for m in groups]
        for group, target in zip(above, targets, strict=True):
            yield Send(group)
            yield Send(replace(target, sender=MIXER, receiver=SERVER))
        slopes: list[Tensor | None] = []
        for group in above:
            slopes.append((yield Receive(SERVER, "gradient")).tensor if group.answer else None)
        for message, slope in zip(smashed, me.defense.unmix(smashed, groups, slopes), strict=True):
            if message.answer:
                # A client that the mixer left out learns nothing from this step.
                own = slope if slope is not None else message.tensor.detach().new_zeros(message.tensor.shape)
                yield Send(message.reply("gradient", own))
        me.end_step()


def _both(senders: Sequence[Party]) -> Program:
    """What each sender sent: smashed data and labels, in the order of the senders."""
    smashed: list[Message] = []
    labels: list[Message] = []
    for sender in senders:
        smashed.append((yield Receive(sender, "smashed")))
        labels.append((yield Receive(sender, "label")))
    return smashed, labels
