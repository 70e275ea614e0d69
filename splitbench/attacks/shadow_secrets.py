"""FORA with a decoder that has seen many secrets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.attacks.fora import FORA
from splitbench.core.imagined import Imagined
from splitbench.core.view import Recovered, View


@dataclass
class ShadowSecrets(FORA):
    """Mount FORA with shadow clients, each with a secret of its own: its decoder learns what all have in common.

    FORA is that of https://arxiv.org/abs/2405.04115; the shadows are this benchmark's own. Who knows the kind of
    the defense (`knowledge: family`) draws secrets as clients do, for SEAL random periodic functions, and simulates
    another of them at every step. Where the secret is held, or nothing is known, this is FORA as it is.
    """

    shadows: Annotated[int, Ge(1)] = 64  # clients with secrets of their own

    def run(self, view: View, generator: Generator) -> Recovered:
        if view.threat.knowledge == "family":
            view = replace(view, imagined=_OneOf(tuple(view.imagined.shadow(generator) for _ in range(self.shadows))))
        return super().run(view, generator)


@dataclass(frozen=True)
class _OneOf(Imagined):
    """Another of these every time."""

    drawn: tuple[Imagined, ...]

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        at = int(torch.randint(len(self.drawn), (), generator=generator))
        return self.drawn[at].simulate(z, generator)
