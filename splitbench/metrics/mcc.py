"""Matthews correlation coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._labels import decided, unsuitable


@dataclass(frozen=True)
class MCC(Metric):
    """The correlation of guessed and true labels: 1 if all are right, 0 for guesses that know nothing.

    Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient", Comput. Biol. Chem. 28,
    2004; for two classes it is that of Matthews, 1975. https://doi.org/10.1016/j.compbiolchem.2004.09.006
    For attributes, the mean over those that vary. Where nothing varies in the truth the coefficient is undefined
    and is NaN; guesses that are always the same score 0.
    """

    goal: ClassVar[str] = "labels"
    pooled: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        guess, unknown = decided(recovered, truth)
        if unknown.any() or not len(truth):
            return torch.tensor(torch.nan, dtype=torch.float64)
        # Labels need not count from zero (an unknown person is -1): number those that occur.
        _, numbered = torch.unique(torch.stack((guess, truth.values)), return_inverse=True)
        ones = F.one_hot(numbered.reshape(2, len(truth), -1)).double()  # (2, N, A, K), where A is 1 for classes
        ones = ones - ones.mean(1, keepdim=True)
        p, t = ones.unbind()
        covariance, of_p, of_t = (p * t).sum((0, 2)), p.square().sum((0, 2)), t.square().sum((0, 2))  # (A,)
        varies = of_t > 1e-9
        # Guesses that are always the same have no variance to divide by; their covariance is 0 and so is the score.
        score = covariance / (of_p * of_t).sqrt().clamp(min=1e-9)
        return score[varies].mean()  # of nothing: NaN
