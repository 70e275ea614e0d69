"""A floor: the most typical auxiliary image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.attacks._floors.floor import Blind, Floor, alike
from splitbench.core.threat import ANY, ThreatModel


@dataclass(frozen=True)
class NearestAuxiliary(Floor):
    """A floor: guess the auxiliary image nearest to all others, of the target's class where labels are granted.

    A sharp image where the mean is a blur: what SSIM rewards, squared error does not.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY, auxiliary=1)

    @property
    def uses_public_labels(self) -> bool:
        return True

    def guess(self, blind: Blind) -> Tensor:
        assert blind.auxiliary is not None
        x = blind.auxiliary.x.flatten(1)  # (M, D)
        if blind.labels is None:
            share = torch.full((1, len(x)), 1 / len(x), device=x.device)
        else:
            share = alike(blind.labels, blind.auxiliary)
        # The sum of squared distances to the others is, but for a constant, that to their mean: no pairs needed.
        away = torch.cdist(share @ x, x).masked_fill(share == 0, torch.inf)
        return blind.auxiliary.x[away.argmin(1)].expand(blind.count, *blind.shape).clone()
