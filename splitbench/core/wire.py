"""The only way a tensor passes between parties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from splitbench.core.message import Kind, Message
from splitbench.core.party import SERVER, Party, Role

Listener = Callable[[Message], None]
Tamper = Callable[[Message], Message]


@dataclass
class Wire:
    """Cut the graph, let an active adversary tamper, count, record, and let listeners hear what passes.

    Nothing passes between parties any other way, so what was recorded is all that a party can have learned of the
    others. What a sender keeps of its own graph is its own affair: only the tensor arrives.
    """

    record: bool = False
    listeners: Sequence[Listener] = ()  # hear a copy of every message as it passed
    tamper: Tamper | None = None  # what an active adversary sends instead
    tamperer: Party = SERVER  # who that is
    transcript: list[Message] = field(default_factory=list)
    traffic: Counter[tuple[int, Party, Party, Kind]] = field(default_factory=Counter)  # round, sender, receiver, kind

    def carry(self, message: Message) -> Message:
        """The message as it arrives: smashed data as a leaf that the receiver may differentiate by."""
        if self.tamper is not None and message.sender == self.tamperer:
            message = self.tamper(message)
        passed = message.carrying(message.tensor.detach())
        size = passed.tensor.element_size() * passed.tensor.nelement()
        self.traffic[message.round, message.sender, message.receiver, message.kind] += size
        for listen in self.listeners:
            listen(passed.carrying(passed.tensor.clone()))
        if self.record:
            # The receiver may write into what it was given (an in-place ReLU does); the record must not change.
            self.transcript.append(passed.carrying(passed.tensor.clone()))
        if message.kind == "smashed" and passed.tensor.is_floating_point():
            passed = passed.carrying(passed.tensor.detach().requires_grad_())
        return passed

    def bytes(self, *, sender: Role | None = None, receiver: Role | None = None, kind: Kind | None = None) -> int:
        """Bytes that passed so far, of one direction or kind if asked."""
        return sum(
            size
            for (_, source, target, what), size in self.traffic.items()
            if (sender is None or source.role == sender)
            and (receiver is None or target.role == receiver)
            and (kind is None or what == kind)
        )

    @property
    def up(self) -> int:
        """Bytes that clients sent, to each other too."""
        return self.bytes(sender="client")

    @property
    def down(self) -> int:
        """Bytes that the server and the mixer sent to clients."""
        return self.bytes(sender="server", receiver="client") + self.bytes(sender="mixer", receiver="client")
