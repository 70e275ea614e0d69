"""What a client can do against a curious server: a few moments, each doing nothing unless overridden."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Generator, Tensor, nn

from splitbench.core.component import Component
from splitbench.core.imagined import Imagined, Rebuilt, several
from splitbench.core.message import Message
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import derive, generator
from splitbench.core.threat import Knowledge

if TYPE_CHECKING:
    from splitbench.core.layout import Layout
    from splitbench.core.member import Batch
    from splitbench.core.split import SplitModel


D = TypeVar("D", bound="Defense")


@dataclass(frozen=True)
class Context:
    """What a defense is bound to, once, before anything is sent."""

    layout: Layout | None = None  # of what crosses the first cut; None where nothing does
    classes: int = 0
    clients: int = 1
    client: int = 0  # whose instance this is
    secret: int = 0  # the seed of this client's secrets
    tokens: str = ""  # the submodule after which the network first holds tokens, if it does
    sample: tuple[int, ...] = ()  # the shape of one input


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
    """Whether a mixer stands between clients and server; only then are `mix` and `unmix` called."""

    joint: ClassVar[bool] = False
    """Whether what is sent of a sample depends on the others of its batch."""

    secrets: ClassVar[tuple[str, ...]] = ()
    """Settings that an adversary below `exact` does not know, and that its own copy has at their defaults."""

    context: Context = Context()

    @property
    def disguises(self) -> bool:
        """Whether what leaves a client is not what its layers made."""
        return type(self).outgoing is not Defense.outgoing

    def bind(self: D, context: Context) -> D:
        """The instance of one client. Each has its own, and with it its own secrets."""
        bound = self._anew()
        object.__setattr__(bound, "context", context)  # components are frozen, and this is their last setting
        return bound

    def _anew(self: D, without: Sequence[str] = ()) -> D:
        """The same settings and nothing else: what was made of a secret and kept (a cached property) stays behind."""
        if not dataclasses.is_dataclass(self):
            return copy.copy(self)
        settings = [field.name for field in dataclasses.fields(self) if field.init and field.name not in without]
        return type(self)(**{name: getattr(self, name) for name in settings})

    def prepare(self, model: SplitModel) -> SplitModel:
        """Change the network before training (replace batch norm, wrap the client)."""
        return model

    def sends(self, layout: Layout) -> Layout:
        """How that lies which leaves a client, given how its layers had it before `prepare`."""
        return layout

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        """Transform a client's batch before its first layer; `batch.learning` is false for inference."""
        return batch

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        """A term for the client's own loss, from its inputs and its smashed data before they leave."""
        return None

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        """Change what a client sends. What is done to the tensor is differentiated through on the way back.

        A defense that mixes rows of a batch says so in `message.about`.
        """
        return message

    def groups(self, clients: int) -> int:
        """Into how many messages the mixer turns those of so many clients: everybody knows that."""
        return clients

    def mix(
        self, smashed: Sequence[Message], labels: Sequence[Message], generator: Generator | None
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        """What the mixer makes of what several clients sent, one message per group; labels may become soft.

        A mixed message's share is the sum of its members' shares, and its `about` names them.
        """
        return smashed, labels

    def unmix(
        self, smashed: Sequence[Message], mixed: Sequence[Message], slopes: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        """The reverse: what each client is sent of the gradients of the mixtures. By default, exactly its own part."""
        known = [(m.tensor, slope) for m, slope in zip(mixed, slopes, strict=True) if slope is not None]
        known = [(z, slope) for z, slope in known if z.requires_grad]
        if not known:
            return [None] * len(smashed)
        outputs, gradients = zip(*known, strict=True)
        return torch.autograd.grad(outputs, [m.tensor for m in smashed], gradients, allow_unused=True)

    def incoming(self, message: Message) -> Message:
        """Look at what was returned to the client; raise `CellError` to leave the protocol."""
        return message

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        """Sanitise the gradients that the backward pass left on a client's stage, in place."""

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        """What it claims the training has cost in privacy (epsilon, delta), for the costs of its row."""
        return {}

    # -- what an adversary makes of it -------------------------------------------------------------------------------

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        """The defense as an adversary imagines it, given smashed data it has seen.

        `none`: that nothing is there. `family`: the kind is known, its secret is not. `exact`: the secret is held.
        """
        if rung == "none" or not self.disguises:
            return Imagined()
        return Rebuilt(self if rung == "exact" else self.rebuilt(generator(0, "family")))

    def rebuilt(self: D, generator: Generator) -> D:
        """The adversary's own copy: the same public settings, a secret that it drew itself."""
        secret = int(torch.randint(2**62, (), generator=generator))
        return self._anew(self.secrets).bind(replace(self.context, client=0, secret=secret))

    def sent(self, z: Tensor, generator: Generator | None) -> Tensor:
        """What leaves a client that made these smashed data."""
        return self.outgoing(Message(CLIENT, SERVER, "smashed", z), generator).tensor


@dataclass(frozen=True)
class Composed(Defense):
    """Several defenses in the order written."""

    parts: tuple[Defense, ...]

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return any(part.mixes for part in self.parts)

    @property
    def joint(self) -> bool:  # type: ignore[override]
        return any(part.joint for part in self.parts)

    @property
    def disguises(self) -> bool:
        return any(part.disguises for part in self.parts)

    def bind(self, context: Context) -> Composed:
        # One seed for each: two defenses of a kind must not share a secret.
        each = (replace(context, secret=derive(context.secret, at)) for at in range(len(self.parts)))
        return Composed(tuple(part.bind(own) for part, own in zip(self.parts, each, strict=True)))

    def prepare(self, model: SplitModel) -> SplitModel:
        for part in self.parts:
            model = part.prepare(model)
        return model

    def sends(self, layout: Layout) -> Layout:
        for part in self.parts:
            layout = part.sends(layout)
        return layout

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        for part in self.parts:
            batch = part.inputs(batch, generator)
        return batch

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        terms = [term for part in self.parts if (term := part.penalty(x, z)) is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        for part in self.parts:
            message = part.outgoing(message, generator)
        return message

    def groups(self, clients: int) -> int:
        for part in self._mixing:
            clients = part.groups(clients)
        return clients

    @property
    def _mixing(self) -> list[Defense]:
        return [part for part in self.parts if part.mixes]

    def mix(
        self, smashed: Sequence[Message], labels: Sequence[Message], generator: Generator | None
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        for part in self._mixing:
            smashed, labels = part.mix(smashed, labels, generator)
        return smashed, labels

    def unmix(
        self, smashed: Sequence[Message], mixed: Sequence[Message], slopes: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        mixing = self._mixing
        # Of several, none knows what came between: only the graph does.
        return mixing[0].unmix(smashed, mixed, slopes) if len(mixing) == 1 else super().unmix(smashed, mixed, slopes)

    def incoming(self, message: Message) -> Message:
        for part in reversed(self.parts):
            message = part.incoming(message)
        return message

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        for part in self.parts:
            part.gradients(stage, generator)

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        costs: dict[str, float] = {}
        for part in self.parts:
            # Epsilons, and deltas, of several mechanisms on the same data add up.
            costs |= {name: costs.get(name, 0.0) + cost for name, cost in part.spent(turns).items()}
        return costs

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        return several([part.imagined(rung, observed) for part in self.parts])

    def rebuilt(self, generator: Generator) -> Composed:
        return Composed(tuple(part.rebuilt(generator) for part in self.parts))
