"""Mean squared error of the numbers of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics._fields import checked, unsuitable


@dataclass(frozen=True)
class FieldMSE(Metric):
    """The mean squared error of a row's numbers, in standard deviations; guessing the mean scores about 1.

    Categories are left out: the distance between two ids means nothing (see `field_accuracy`). Yao et al., ICDM 2022,
    table III, print an error of Criteo's features on a scale that they do not state (two random features are 0.003
    apart), so ratios can be compared with theirs, values cannot.
    """

    modality: ClassVar[str | None] = "tabular"
    leaks_when: ClassVar[Literal["high", "low"]] = "low"

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth) or _wordy(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth)
        if why := _wordy(truth):
            raise SplitbenchError(why)
        numbers = torch.tensor([field.categories == 0 for field in truth.fields], device=true.device)
        return (recovered - true)[:, numbers].square().mean(1)


def _wordy(truth: Truth) -> str | None:
    if all(field.categories for field in truth.fields):
        return "all fields are categories; an error is that of numbers"
    return None
