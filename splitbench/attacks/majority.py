"""A floor: the commonest label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator

from splitbench.core.attack import Attack
from splitbench.core.threat import ANY, ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Majority(Attack):
    """A floor: guess the label that public samples have most often; without any, the first class."""

    goal: ClassVar[str] = "labels"
    role: ClassVar[Literal["attack", "floor", "bound"]] = "floor"
    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY)
    modality: ClassVar[str | tuple[str, ...] | None] = None

    @property
    def uses_public_labels(self) -> bool:
        return True

    def run(self, view: View, generator: Generator) -> Recovered:
        if view.auxiliary is None:
            return Recovered(labels=torch.zeros(len(view), dtype=torch.int64, device=view.targets.device))
        y = view.auxiliary.y
        common = y.mode(0).values if y.dim() == 1 else (y.double().mean(0) > 0.5).long()
        return Recovered(labels=common.expand(len(view), *y.shape[1:]).clone())
