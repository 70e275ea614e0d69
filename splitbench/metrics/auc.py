"""Area under the receiver operating characteristic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._membership import parted, unsuitable
from splitbench.metrics._ranks import chance_of_higher


@dataclass(frozen=True)
class AUC(Metric):
    """The chance that a member has a higher score than a non-member: 1 if all do, 0.5 for a coin.

    The Mann-Whitney statistic over the number of pairs; a tie counts half. A NaN score makes it NaN.
    Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve",
    Radiology 143, 1982. https://doi.org/10.1148/radiology.143.1.7063747
    """

    goal: ClassVar[str] = "membership"
    pooled: ClassVar[bool] = True

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        return chance_of_higher(*parted(recovered, truth))
