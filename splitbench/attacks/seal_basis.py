"""FORA against SEAL, its secret read off what was sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Gt, Le
from torch import Generator, Tensor

from splitbench.attacks._seal.recover_basis import Bases, one_for, prefixed, recover
from splitbench.attacks.fora import FORA
from splitbench.core.defense import Composed, Defense
from splitbench.core.view import Recovered, View
from splitbench.core.wire import Message
from splitbench.methods.seal.zigzag import OneFor, dropped, projected

_ENOUGH = 3  # rows of a basis; a few are found by chance where channels are the same for all images
_PREFIXED = 0.5  # share of the maps that have to be prefixes of the zig-zag in terms of what was found


@dataclass
class SealBasis(FORA):
    """Recover SEAL's secret basis from what was sent, then mount FORA with the defense that it makes.

    FORA is that of https://arxiv.org/abs/2405.04115; the recovery is this benchmark's own. Kept coefficients are
    nested, so the ranks and the ranges of the maps sent tell the basis row by row, be it orthonormalised over rows or
    over columns. They do not tell how much energy is kept: that is `omega`, unless the kind of the defense is known.
    Where no basis is found (no SEAL, vectors instead of maps, noise on top) this is FORA as it is, and so it is where
    the secret is held. Whether each map has a prefix of its own or all maps of an image the same is told by the maps.
    """

    omega: Annotated[float, Gt(0), Le(1)] = 0.7  # share of the energy that SEAL is taken to keep, if it is not known

    def run(self, view: View, generator: Generator) -> Recovered:
        observed = self.observed(view)
        bases = None if view.threat.knowledge == "exact" else found(observed)
        if bases is not None:
            view = replace(view, defense=self._sealed(view.defense, bases, one_for(observed, bases)))
        return super().run(view, generator)

    def _sealed(self, imagined: Defense, bases: Bases, mask: OneFor) -> Defense:
        """The defense imagined so far, with the bases found in place of guessed ones, or after everything else."""
        parts = imagined.parts if isinstance(imagined, Composed) else (imagined,)
        guesses = [hasattr(part, "bases") and hasattr(part, "omega") for part in parts]
        known = [
            _Sealed(bases, part.omega, mask) if guess else part  # type: ignore[attr-defined]
            for part, guess in zip(parts, guesses, strict=True)
        ]
        return Composed(tuple(known) if any(guesses) else (*known, _Sealed(bases, self.omega, mask)))


def found(observed: Tensor) -> Bases | None:
    """The bases of what was observed, (N, C, H, W) or (N, L, D), if it looks as if SEAL had sent it."""
    if observed.dim() < 3:
        return None
    maps = observed.flatten(0, -3)
    bases = recover(maps)
    return bases if min(bases.found) >= _ENOUGH and prefixed(maps, bases) >= _PREFIXED else None


@dataclass(frozen=True)
class _Sealed(Defense):
    """SEAL with given bases."""

    bases: Bases
    omega: float
    mask: OneFor

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        x = message.tensor
        down, across = self.bases.down.to(x), self.bases.across.to(x)
        return message.carrying(projected(x, down, across, lambda z: dropped(z, self.omega, self.mask)))
