"""What a client can do against a curious server: a few moments, each doing nothing unless overridden."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Generator, Tensor, nn

from splitbench.core.component import Component
from splitbench.core.randomness import derive
from splitbench.core.threat import Knowledge

if TYPE_CHECKING:
    from splitbench.core.split import SplitModel
    from splitbench.core.wire import Message


@dataclass(frozen=True)
class Turn:
    """Steps of training that a client took alike."""

    client: int
    rate: float  # of the client's samples, the share in a batch
    repeats: int  # how often a batch holds the sample that it holds most often
    steps: int


class Defense(Component):
    """The baseline: everything passes as it is. In the order in which the moments occur:"""

    mixes: ClassVar[bool] = False
    """Whether a mixer stands between clients and server; only then is `mix` called."""

    @property
    def disguises(self) -> bool:
        """Whether what leaves a client is not what its layers made."""
        return type(self).outgoing is not Defense.outgoing

    def protects(self, index: int) -> bool:
        """Whether client `index` uses it."""
        return True

    def keyed(self, seed: int) -> Defense:
        """The defense with secrets of its own derived from this seed, where the user has not given any."""
        return self

    def known(self, rung: Knowledge, observed: Tensor) -> Defense:
        """The defense as an adversary imagines it, given smashed data it has seen.

        `none`: that nothing is there. `family`: the kind is known and its secret guessed. `exact`: the secret is held.
        An adversary simulates what it imagines in its own client, shadow or decoder.
        """
        return Defense() if rung == "none" else self

    def shadow(self, generator: Generator) -> Defense:
        """The same with another secret: that of a client which one who knows the kind has made for itself."""
        return self

    def given(self, sent: Tensor) -> Defense:
        """The same as it was for the samples of which this was sent, as far as an adversary can read that off it."""
        return self

    def merge(self, rounds: Tensor) -> Tensor:
        """What an adversary that imagines this makes of the same samples sent several times (R, N, ...).

        The mean undoes noise that is drawn anew; override where another statistic undoes more.
        """
        return rounds.mean(0)

    def prepare(self, model: SplitModel) -> SplitModel:
        """Change the network before training (replace batch norm, wrap the client)."""
        return model

    def inputs(self, x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        """Transform a client's batch before its first layer."""
        return x, y

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        """A term for the client's own loss, from its inputs and its smashed data before they leave."""
        return None

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        """Change what a client sends. What is done to the tensor is differentiated through on the way back."""
        return message

    def mix(
        self, smashed: Sequence[Message], labels: Sequence[Message], generator: Generator | None
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        """What the mixer makes of what several clients sent, one message a group; labels may become soft.

        A mixed message's share is the sum of its members' shares.
        """
        return smashed, labels

    def incoming(self, message: Message) -> Message:
        """Look at what the server returned; raise `CellError` to leave the protocol."""
        return message

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        """Sanitise the gradients that the backward pass left on a client's stage, in place."""

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        """What it claims the training has cost in privacy (epsilon, delta), for the costs of its row."""
        return {}


@dataclass(frozen=True)
class Composed(Defense):
    """Several defenses in the order written, for the first `clients` clients (all, if None)."""

    parts: tuple[Defense, ...]
    clients: int | None = None

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return any(part.mixes for part in self.parts)

    @property
    def disguises(self) -> bool:
        return any(part.disguises for part in self.parts)

    def protects(self, index: int) -> bool:
        return self.clients is None or index < self.clients

    def keyed(self, seed: int) -> Defense:
        # One seed for each: two defenses of a kind must not share a secret.
        return Composed(tuple(part.keyed(derive(seed, at)) for at, part in enumerate(self.parts)), self.clients)

    def known(self, rung: Knowledge, observed: Tensor) -> Defense:
        return Composed(tuple(part.known(rung, observed) for part in self.parts), self.clients)

    def shadow(self, generator: Generator) -> Defense:
        return Composed(tuple(part.shadow(generator) for part in self.parts), self.clients)

    def given(self, sent: Tensor) -> Defense:
        # What was sent is what the last one made.
        return Composed((*self.parts[:-1], *(part.given(sent) for part in self.parts[-1:])), self.clients)

    def merge(self, rounds: Tensor) -> Tensor:
        # What undoes one defense is not known to undo several: then the mean, as for any.
        return self.parts[0].merge(rounds) if len(self.parts) == 1 else super().merge(rounds)

    def prepare(self, model: SplitModel) -> SplitModel:
        for part in self.parts:
            model = part.prepare(model)
        return model

    def inputs(self, x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        for part in self.parts:
            x, y = part.inputs(x, y, generator)
        return x, y

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        terms = [term for part in self.parts if (term := part.penalty(x, z)) is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if self.protects(message.sender.index):
            for part in self.parts:
                message = part.outgoing(message, generator)
        return message

    def mix(
        self, smashed: Sequence[Message], labels: Sequence[Message], generator: Generator | None
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        for part in self.parts:
            smashed, labels = part.mix(smashed, labels, generator)
        return smashed, labels

    def incoming(self, message: Message) -> Message:
        if self.protects(message.receiver.index):
            for part in reversed(self.parts):
                message = part.incoming(message)
        return message

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        for part in self.parts:
            part.gradients(stage, generator)

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        mine = [turn for turn in turns if self.protects(turn.client)]
        costs: dict[str, float] = {}
        for part in self.parts:
            # Epsilons, and deltas, of several mechanisms on the same data add up.
            costs |= {name: costs.get(name, 0.0) + cost for name, cost in part.spent(mine).items()}
        return costs
