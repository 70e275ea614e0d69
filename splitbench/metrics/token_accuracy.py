"""Share of tokens recovered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth


@dataclass(frozen=True)
class TokenAccuracy(Metric):
    """The share of a text's positions at which the recovered token is the true one.

    Guesses are token ids (N, L), or logits (N, L, V), of which the largest counts. Marks that begin and end every text
    count as any token does, and attackers that look at nothing get them too. A text with a NaN scores NaN.
    """

    modality: ClassVar[str | None] = "text"

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or _unsuitable(truth)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        if why := _unsuitable(truth):
            raise SplitbenchError(why)
        tokens = truth.values
        logits = recovered.is_floating_point() and recovered.ndim == 3 and recovered.shape[:2] == tokens.shape
        if not logits and recovered.shape != tokens.shape:
            raise SplitbenchError(
                f"the recovered texts have shape {tuple(recovered.shape)}; expected token ids {tuple(tokens.shape)}, "
                "or logits with one more axis"
            )
        guess = recovered.argmax(2) if logits else recovered
        unknown = recovered.isnan().flatten(1).any(1)
        return (guess == tokens).double().mean(1).masked_fill(unknown, torch.nan)


def _unsuitable(truth: Truth) -> str | None:
    if truth.values.is_floating_point() or truth.values.ndim != 2:
        shape = tuple(truth.values.shape)
        return f"texts are whole numbers (N, L), the true values are {truth.values.dtype} of shape {shape}"
    return None
