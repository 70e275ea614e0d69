"""Attackers that look at nothing: what any attack must beat before it has shown that anything leaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from splitbench.core.attack import Attack
from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.threat import ANY, ThreatModel
from splitbench.core.view import Auxiliary, Recovered, View


@dataclass(frozen=True)
class Blind:
    """What a floor is given: everything but what was sent."""

    count: int  # of the targets
    shape: tuple[int, ...]  # of one input
    device: torch.device
    auxiliary: Auxiliary | None
    labels: Tensor | None  # the targets', where granted
    fields: tuple[Field, ...] = ()  # the columns of a table


class Floor(Attack):
    """An attack that is given no smashed data, so that it cannot use any."""

    role: ClassVar[Literal["attack", "floor", "bound"]] = "floor"
    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY)

    def run(self, view: View, generator: Generator) -> Recovered:
        if reason := self.lacks(view.threat):
            raise SplitbenchError(f"{type(self).__name__} {reason}")
        guess = self.guess(Blind(len(view), view.shape, view.targets.device, view.auxiliary, view.labels, view.fields))
        return Recovered(inputs=guess.clamp(0, 1) if view.modality == "image" else guess)

    def guess(self, blind: Blind) -> Tensor:
        """As many inputs as there are targets, of their shape."""
        raise NotImplementedError


def alike(labels: Tensor, auxiliary: Auxiliary) -> Tensor:
    """For each target, its share of every auxiliary image (N, M): equal among those whose labels differ least.

    For classes these are the images of the class, and all of them where the class has none; for attributes, those
    that agree in most attributes.
    """
    wanted, public = (y.reshape(len(y), -1).float() for y in (labels, auxiliary.y))
    differing = torch.cdist(wanted, public, p=0)
    nearest = (differing == differing.amin(1, keepdim=True)).float()
    return nearest / nearest.sum(1, keepdim=True)
