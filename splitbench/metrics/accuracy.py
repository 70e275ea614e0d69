"""Share of labels that are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from splitbench.core.metric import Metric
from splitbench.metrics._labels import decided


@dataclass(frozen=True)
class Accuracy(Metric):
    """Whether each sample's label is right; for attributes, the share of them that are. A NaN logit scores NaN."""

    about: ClassVar[Literal["inputs", "labels"]] = "labels"

    def __call__(self, recovered: Tensor, truth: Tensor) -> Tensor:
        guess, unknown = decided(recovered, truth)
        right = (guess == truth).double().reshape(len(truth), -1).mean(1)
        return right.masked_fill(unknown, torch.nan)
