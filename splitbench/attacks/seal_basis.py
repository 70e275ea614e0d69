"""FORA against SEAL, its secret read off what was sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Gt, Le
from torch import Generator, Tensor

from splitbench.attacks._seal.recover_basis import Bases, one_for, prefixed, recover
from splitbench.attacks.fora import FORA
from splitbench.core.imagined import Imagined, Several, several
from splitbench.core.view import Recovered, View
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
            view = replace(view, imagined=self._sealed(view.imagined, bases, one_for(observed, bases)))
        return super().run(view, generator)

    def _sealed(self, imagined: Imagined, bases: Bases, mask: OneFor) -> Imagined:
        """The defense imagined so far, with the bases found in place of guessed ones, or after everything else."""
        parts = imagined.parts if isinstance(imagined, Several) else (imagined,)
        guesses = [_omega(part) for part in parts]
        known = [
            part if omega is None else _Sealed(bases, omega, mask) for part, omega in zip(parts, guesses, strict=True)
        ]
        return several(known if any(guesses) else [*known, _Sealed(bases, self.omega, mask)])


def _omega(imagined: Imagined) -> float | None:
    """The share of the energy that is kept, if this is SEAL and its kind is known."""
    defense: Any = getattr(imagined, "defense", None)
    return defense.omega if hasattr(defense, "bases") and hasattr(defense, "omega") else None


def found(observed: Tensor) -> Bases | None:
    """The bases of what was observed, (N, C, H, W) or (N, L, D), if it looks as if SEAL had sent it."""
    if observed.dim() < 3:
        return None
    maps = observed.flatten(0, -3)
    bases = recover(maps)
    return bases if min(bases.found) >= _ENOUGH and prefixed(maps, bases) >= _PREFIXED else None


@dataclass(frozen=True)
class _Sealed(Imagined):
    """SEAL with given bases."""

    bases: Bases
    omega: float
    mask: OneFor

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        down, across = self.bases.down.to(z), self.bases.across.to(z)
        return projected(z, down, across, lambda spectrum: dropped(spectrum, self.omega, self.mask))
