"""Attackers that look at nothing: what any attack must beat before it has shown that anything leaks."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from splitbench.core.attack import Attack
from splitbench.core.errors import SplitbenchError
from splitbench.core.view import Auxiliary, Recovered, View


class Floor(Attack):
    """An attack that is given no smashed data, so that it cannot use any."""

    role: ClassVar[Literal["attack", "floor", "bound"]] = "floor"

    def run(self, view: View, generator: Generator) -> Recovered:
        if reason := self.lacks(view.threat):
            raise SplitbenchError(f"{type(self).__name__} {reason}")
        guess = self.guess(len(view.targets), view.shape, view.auxiliary, view.labels)
        return Recovered(inputs=guess.clamp(0, 1))

    def guess(self, count: int, shape: tuple[int, ...], auxiliary: Auxiliary | None, labels: Tensor | None) -> Tensor:
        """As many images of this shape, from what is public and, where granted, the targets' labels."""
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
