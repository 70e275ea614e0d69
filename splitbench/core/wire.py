"""The only way a tensor passes between parties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.party import Party, Role

Kind = Literal["smashed", "gradient", "label", "weights"]


@dataclass(frozen=True)
class Message:
    """One tensor on its way from one party to another. `samples` says which rows of the data it is about;
    it is the runner's bookkeeping and is removed before an adversary sees the message."""

    step: int
    sender: Party
    receiver: Party
    kind: Kind
    cut: int
    tensor: Tensor
    samples: Tensor | None = None
    share: float = 1.0  # of all data, what the message speaks for; its weight in a loss over several messages

    def carrying(self, tensor: Tensor) -> Message:
        return replace(self, tensor=tensor)


class Delivery(NamedTuple):
    """What became of a message: `sent` is still in the sender's graph, `received` is a leaf of the receiver's."""

    sent: Tensor
    received: Tensor


Listener = Callable[[Message], None]
Tamper = Callable[[Message], Message]


@dataclass
class Wire:
    """Cut the graph, let the sender defend or tamper, count, record, let the receiver inspect.

    Nothing passes between parties any other way, so a recorded transcript is all that an adversary on the
    receiving side can have learned.
    """

    defense: Defense = field(default_factory=Defense)
    generator: Generator | None = None
    record: bool = False
    listeners: Sequence[Listener] = ()  # see every message as it passed; may not change it
    tamper: Tamper | None = None  # an active server's chance to send something else
    round: int = 0
    speaker: Party | None = None  # the client who sent something last
    transcript: list[Message] = field(default_factory=list)
    traffic: Counter[tuple[int, Role, Role, Kind]] = field(default_factory=Counter)

    def defense_of(self, client: Party) -> Defense:
        """The defense a client uses: the baseline, if it is not among the protected."""
        return self.defense if self.defense.protects(client.index) else Defense()

    def send(self, message: Message) -> Delivery:
        if message.sender.role == "client":
            self.speaker = message.sender
            message = self.defense_of(message.sender).outgoing(message, self.generator)
        elif message.sender.role == "server" and self.tamper is not None:
            message = self.tamper(message)
        sent = message.tensor
        passed = message.carrying(sent.detach())
        self.traffic[self.round, message.sender.role, message.receiver.role, message.kind] += (
            sent.element_size() * sent.nelement()
        )
        for listen in self.listeners:
            listen(passed)
        if self.record:
            # The receiver may write into what it was given (an in-place ReLU does); the record must not change.
            self.transcript.append(passed.carrying(passed.tensor.clone()))
        if message.receiver.role == "client":
            passed = self.defense_of(message.receiver).incoming(passed)
        received = passed.tensor
        if message.kind == "smashed":
            received = received.detach().requires_grad_(received.is_floating_point())
        return Delivery(sent, received)

    def bytes(self, *, sender: str | None = None, kind: Kind | None = None) -> int:
        """Bytes that passed so far, of one direction or kind if asked."""
        return sum(
            size
            for (_, source, _, what), size in self.traffic.items()
            if (sender is None or source == sender) and (kind is None or what == kind)
        )
