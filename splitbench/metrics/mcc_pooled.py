"""Matthews correlation coefficient of all attributes together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._labels import decided, unsuitable
from splitbench.metrics.mcc import MCC


@dataclass(frozen=True)
class MCCPooled(Metric):
    """The correlation of guessed and true attributes, counted in one table of confusions for all of them.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, equation 10.
    https://github.com/dixiyao/PatchShuffling
    The equation leaves open whether attributes are counted together; the printed pairs of accuracy and MCC are those of
    this form. It rewards knowing which attributes are common: always giving the commonest answer scores 0.36 on CelebA,
    where the mean over attributes (`mcc`) is 0.
    """

    goal: ClassVar[str] = "labels"
    pooled: ClassVar[bool] = True
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth) or _single(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        guess, unknown = decided(recovered, truth)
        if unknown.any():
            return torch.tensor(torch.nan, dtype=torch.float64)
        return MCC()(guess.flatten(), Truth.of(truth.values.flatten(), truth.modality))


def _single(truth: Truth) -> str | None:
    return None if truth.values.ndim == 2 else "there is one label for each sample and nothing to pool; see mcc"
