"""Share of the fields of a row recovered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Gt
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._fields import checked, unsuitable


@dataclass(frozen=True)
class FieldAccuracy(Metric):
    """The share of a row's fields that are recovered: the category exactly, a number to a quarter standard deviation.

    Numbers are standardised, so that `within` is in standard deviations. A guess of a category is rounded to the
    nearest id. A row with a NaN scores NaN.
    """

    modality: ClassVar[str | None] = "tabular"

    within: Annotated[float, Gt(0)] = 0.25  # standard deviations by which a recovered number may be off

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        guess, true = checked(recovered, truth)
        categories = torch.tensor([field.categories > 0 for field in truth.fields], device=true.device)
        right = torch.where(categories, guess.round() == true, (guess - true).abs() <= self.within)
        unknown = guess.isnan().any(1) | true.isnan().any(1)
        return right.double().mean(1).masked_fill(unknown, torch.nan)
