"""Area under the receiver operating characteristic of a task with two answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics._labels import unsuitable
from splitbench.metrics._ranks import chance_of_higher


@dataclass(frozen=True)
class AUROC(Metric):
    """The chance that a positive sample has a higher score than a negative one: 0.5 for guesses that know nothing.

    For a task of two classes, and for attributes as the mean over those that vary. Where one answer is much commoner
    than the other, accuracy cannot tell a network that learned from one that always gives the commoner one; this can.
    Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve",
    Radiology 143, 1982. https://doi.org/10.1148/radiology.143.1.7063747
    """

    goal: ClassVar[str] = "labels"
    pooled: ClassVar[bool] = True

    def applies(self, truth: Truth) -> str | None:
        why = super().applies(truth) or unsuitable(truth)
        if why is not None or truth.values.is_meta:
            return why
        if not ((truth.values == 0) | (truth.values == 1)).all():
            return "AUROC is about answers of two kinds, and there are more classes"
        varies = (truth.values == 1).any(0) & (truth.values == 0).any(0)
        return None if bool(varies.any()) else "AUROC needs positive and negative samples"

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        if why := self.applies(truth):
            raise SplitbenchError(why)
        y = truth.values
        scores = recovered.detach().double()
        if y.ndim == 1 and scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1] - scores[:, 0]
        if scores.shape != y.shape:
            raise SplitbenchError(f"the guesses have shape {tuple(recovered.shape)}, the true labels {tuple(y.shape)}")
        scores, y = scores.reshape(len(y), -1), y.reshape(len(y), -1)
        found = [
            chance_of_higher(column[label == 1], column[label == 0])
            for column, label in zip(scores.T, y.T, strict=True)
            if (label == 1).any() and (label == 0).any()
        ]
        return torch.stack(found).mean()
