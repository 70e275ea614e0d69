"""What an attack may look at, cut from what crossed the wire."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor, nn

from splitbench.core.defense import Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.threat import ThreatModel
from splitbench.core.wire import Message


@dataclass(frozen=True)
class Auxiliary:
    """Public samples of the private kind: images in [0, 1], and their labels."""

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)


_numbers = itertools.count()
_counters: dict[int, Callable[[Tensor], Tensor]] = {}


@dataclass
class Query:
    """The client as a black box, through its defense, for as many inputs as the threat model allows.

    The client stays behind a counter: a view holds a number and asks there, so that following the references of
    a view never leads to the client's weights.
    """

    counter: int
    left: int

    @classmethod
    @contextmanager
    def open(cls, answer: Callable[[Tensor], Tensor], allowed: int) -> Iterator[Query]:
        counter = next(_numbers)
        _counters[counter] = answer
        try:
            yield cls(counter, allowed)
        finally:
            del _counters[counter]

    def __call__(self, x: Tensor) -> Tensor:
        if len(x) > self.left:
            raise SplitbenchError(f"the threat model grants {self.left} more queries, the attack asked for {len(x)}")
        self.left -= len(x)
        return _counters[self.counter](x)


@dataclass(frozen=True)
class View:
    """Everything granted to an adversary, and nothing else. What a threat model denies is None or empty."""

    threat: ThreatModel
    targets: Tensor  # (N, ...) smashed data of the samples to recover, merged if they were sent several times
    shape: tuple[int, ...]  # of one input, (C, H, W) for images
    classes: int
    stages: Sequence[nn.Module]  # the adversary's own: a copy of the server's layers
    labels: Tensor | None = None  # the targets' labels
    template: Callable[[], nn.Module] | None = None  # the client's layers, freshly initialised
    auxiliary: Auxiliary | None = None
    query: Query | None = None
    heard: Sequence[Message] = ()  # what passed during training, after the defense
    defense: Defense = field(default_factory=Defense)  # as the adversary imagines it

    def imagine(self, z: Tensor, generator: Generator | None) -> Tensor:
        """What the adversary's own smashed data would be after the defense it imagines; differentiable.

        Where the targets are merged from several rounds, so is this.
        """
        message = Message(0, CLIENT, SERVER, "smashed", 0, z)
        drawn = [self.defense.outgoing(message, generator).tensor for _ in range(self.threat.rounds)]
        return drawn[0] if len(drawn) == 1 else self.defense.merge(torch.stack(drawn))


@dataclass(frozen=True)
class Recovered:
    """An attack's guesses, in the order of the targets."""

    inputs: Tensor | None = None
    labels: Tensor | None = None
