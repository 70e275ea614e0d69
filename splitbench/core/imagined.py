"""A defense as an adversary that does not hold its secret can rebuild it: an interface apart from the defense.

What is imagined is built from what the adversary may know, never cut down from the real object: below `exact`, nothing
reachable from here leads to the secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Generator, Tensor

if TYPE_CHECKING:
    from splitbench.core.defense import Defense


class Imagined:
    """This one: the adversary takes it that nothing defends."""

    @property
    def disguises(self) -> bool:
        """Whether `simulate` changes anything."""
        return type(self).simulate is not Imagined.simulate

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        """What the adversary's own smashed data would be after the defense; differentiable."""
        return z

    def merge(self, rounds: Tensor) -> Tensor:
        """What the adversary makes of the same samples sent several times (R, N, ...).

        The mean undoes noise that is drawn anew; override where another statistic undoes more.
        """
        return rounds[0] if len(rounds) == 1 else rounds.mean(0)

    def shadow(self, generator: Generator) -> Imagined:
        """The same with another secret: that of a client which the adversary made for itself."""
        return self

    def given(self, sent: Tensor) -> Imagined:
        """The same as it was for the samples of which this was sent, as far as that can be read off it."""
        return self


@dataclass(frozen=True)
class Rebuilt(Imagined):
    """A defense of the adversary's own, with a secret of its own or, at `exact`, with the client's."""

    defense: Defense

    @property
    def disguises(self) -> bool:
        return self.defense.disguises

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        return self.defense.sent(z, generator)

    def shadow(self, generator: Generator) -> Imagined:
        return Rebuilt(self.defense.rebuilt(generator))


@dataclass(frozen=True)
class Several(Imagined):
    """Several defenses in the order in which they act."""

    parts: tuple[Imagined, ...]

    @property
    def disguises(self) -> bool:
        return any(part.disguises for part in self.parts)

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        for part in self.parts:
            z = part.simulate(z, generator)
        return z

    def merge(self, rounds: Tensor) -> Tensor:
        # What undoes one defense is not known to undo several: then the mean, as for any.
        return self.parts[0].merge(rounds) if len(self.parts) == 1 else super().merge(rounds)

    def shadow(self, generator: Generator) -> Imagined:
        return Several(tuple(part.shadow(generator) for part in self.parts))

    def given(self, sent: Tensor) -> Imagined:
        # What was sent is what the last one made.
        return several([*self.parts[:-1], *(part.given(sent) for part in self.parts[-1:])])


def several(parts: Sequence[Imagined]) -> Imagined:
    """All of these, without those that imagine nothing."""
    acting = tuple(part for part in parts if type(part) is not Imagined)
    return Imagined() if not acting else acting[0] if len(acting) == 1 else Several(acting)
