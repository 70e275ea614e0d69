"""True positive rate at a low false positive rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._membership import parted, unsuitable


@dataclass(frozen=True)
class TPRAtFPR(Metric):
    """The share of members found by a threshold that takes at most `fpr` of the non-members for members.

    Carlini et al., "Membership inference attacks from first principles", 2022, section III.
    https://arxiv.org/abs/2112.03570
    The best threshold is chosen with the truth and nothing is interpolated, so with fewer than 1 / fpr non-members
    none of them may be mistaken. A NaN score makes it NaN.
    """

    goal: ClassVar[str] = "membership"
    pooled: ClassVar[bool] = True

    fpr: Annotated[float, Ge(0), Lt(1)] = 0.01  # the share of non-members that may be taken for members

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        members, others = parted(recovered, truth)
        if members.isnan().any() or others.isnan().any():
            return torch.tensor(torch.nan, dtype=torch.float64)
        # Rounding must not turn 0.01 * 300 into 2.9999.
        allowed = int(self.fpr * len(others) + 1e-9)
        # All scores above that of the first non-member who must not be taken for a member.
        limit = others.sort(descending=True).values[allowed]
        return (members > limit).double().mean()
