"""A floor: the most typical auxiliary image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.attacks._floors.floor import Floor, alike
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary


@dataclass(frozen=True)
class NearestAuxiliary(Floor):
    """A floor: guess the auxiliary image nearest to all others, of the target's class where labels are granted.

    A sharp image where the mean is a blur: what SSIM rewards, squared error does not.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)

    def guess(self, count: int, shape: tuple[int, ...], auxiliary: Auxiliary | None, labels: Tensor | None) -> Tensor:
        assert auxiliary is not None
        x = auxiliary.x.flatten(1)  # (M, D)
        share = torch.full((1, len(x)), 1 / len(x), device=x.device) if labels is None else alike(labels, auxiliary)
        # The sum of squared distances to the others is, but for a constant, that to their mean: no pairs needed.
        away = torch.cdist(share @ x, x).masked_fill(share == 0, torch.inf)
        return auxiliary.x[away.argmin(1)].expand(count, *shape).clone()
