"""What an attack may look at, cut from what crossed the wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.hidden import Hidden
from splitbench.core.imagined import Imagined
from splitbench.core.layout import Layout
from splitbench.core.message import Message
from splitbench.core.threat import ThreatModel


@dataclass(frozen=True)
class Auxiliary:
    """Samples and their labels, as a network is given them."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)


@dataclass
class Query:
    """The client as a black box, through its defense, for as many inputs as the threat model allows."""

    ask: Hidden[Tensor]
    left: int

    @classmethod
    @contextmanager
    def open(cls, answer: Callable[[Tensor], Tensor], allowed: int) -> Iterator[Query]:
        with Hidden.open(answer) as ask:
            yield cls(ask, allowed)

    def __call__(self, x: Tensor) -> Tensor:
        """(R, N, ...): as often as the threat model grants rounds."""
        if len(x) > self.left:
            raise SplitbenchError(f"the threat model grants {self.left} more queries, the attack asked for {len(x)}")
        self.left -= len(x)
        return self.ask(x)


@dataclass(frozen=True)
class View:
    """Everything granted to an adversary, and nothing else. What a threat model denies is None or empty."""

    threat: ThreatModel
    targets: Tensor  # (R, N, ...): what reached the party about the samples to recover, round by round
    shape: tuple[int, ...]  # of one input, (C, H, W) for images
    classes: int
    stages: Sequence[nn.Module]  # the adversary's own: copies of the layers of the party that attacks
    modality: str = "image"
    fields: tuple[Field, ...] = ()  # the columns of a table
    layout: Layout | None = None  # of the targets
    messages: Sequence[Sequence[Message]] = ()  # all that reached the party in the rounds, not the targets alone
    labels: Tensor | None = None  # the targets' labels
    batch: int = 1  # targets come in runs of so many that were defended together
    template: Callable[[], nn.Module] | None = None  # the client's layers, freshly initialised
    client: Callable[[], nn.Module] | None = None  # the client's layers as they are, without what it draws by chance
    auxiliary: Auxiliary | None = None
    candidates: Auxiliary | None = None  # for membership: samples of which some were trained on
    query: Query | None = None
    heard: Sequence[Message] = ()  # what passed during training, after the defense
    imagined: Imagined = field(default_factory=Imagined)  # the defense, as the adversary rebuilds it

    @functools.cached_property
    def merged(self) -> Tensor:
        """(N, ...): the targets of all rounds as one."""
        return self.merge(self.targets)

    def merge(self, rounds: Tensor) -> Tensor:
        """What was sent several times (R, N, ...) as one, by what the adversary knows of the defense."""
        return self.imagined.merge(rounds)

    def __len__(self) -> int:
        """How many targets there are."""
        return self.targets.shape[1]

    def imagine(self, z: Tensor, generator: Generator | None) -> Tensor:
        """What the adversary's own smashed data would be after the defense it imagines; differentiable.

        Where the targets are merged from several rounds, so is this.
        """
        drawn = [self.imagined.simulate(z, generator) for _ in range(len(self.targets))]
        return drawn[0] if len(drawn) == 1 else self.merge(torch.stack(drawn))


@dataclass(frozen=True)
class Recovered:
    """An attack's guesses, in the order of the targets: of the one thing that is its goal."""

    inputs: Tensor | None = None
    labels: Tensor | None = None  # whole numbers, or logits
    membership: Tensor | None = None  # (N,): the higher, the likelier a member
    attributes: Tensor | None = None
