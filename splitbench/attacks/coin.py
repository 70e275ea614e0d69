"""A floor: tossing a coin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator

from splitbench.core.attack import Attack
from splitbench.core.threat import ANY, ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Coin(Attack):
    """A floor: call each candidate a member with a chance drawn at random."""

    goal: ClassVar[str] = "membership"
    role: ClassVar[Literal["attack", "floor", "bound"]] = "floor"
    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY)
    modality: ClassVar[str | tuple[str, ...] | None] = None

    def run(self, view: View, generator: Generator) -> Recovered:
        return Recovered(membership=torch.rand(len(view), generator=generator).to(view.targets.device))
