"""Share of labels that are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._labels import decided, unsuitable


@dataclass(frozen=True)
class Accuracy(Metric):
    """Whether each sample's label is right; for attributes, the share of them that are. A NaN logit scores NaN."""

    goal: ClassVar[str] = "labels"

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        guess, unknown = decided(recovered, truth)
        right = (guess == truth.values).double().reshape(len(truth), -1).mean(1)
        return right.masked_fill(unknown, torch.nan)
