"""From what an attack or a network says about labels to the labels it means."""

from __future__ import annotations

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth


def unsuitable(truth: Truth) -> str | None:
    """Why the truth cannot be labels; None if it can."""
    if truth.values.is_floating_point() or truth.values.ndim not in (1, 2):
        return (
            f"the true labels are {truth.values.dtype} of shape {tuple(truth.values.shape)}; "
            "expected whole numbers, (N,) for classes or (N, A) for attributes"
        )
    return None


def decided(recovered: Tensor, known: Truth) -> tuple[Tensor, Tensor]:
    """The guessed labels, shaped like the truth, and which samples hold a NaN and therefore decide nothing.

    Logits (N, K) decide for the largest; attribute logits (N, A) for 1 where positive, which is a probability
    above one half; integers are labels already.
    """
    if why := unsuitable(known):
        raise SplitbenchError(why)
    truth = known.values
    logits = recovered.is_floating_point()
    if recovered.shape == truth.shape and not logits:
        return recovered.to(truth.dtype), torch.zeros(len(truth), dtype=torch.bool, device=truth.device)
    if recovered.shape == truth.shape and truth.ndim == 2:
        guess = recovered > 0
    elif logits and truth.ndim == 1 and recovered.ndim == 2 and len(recovered) == len(truth) and recovered.shape[1] > 1:
        guess = recovered.argmax(1)
    else:
        n = len(truth)
        wanted = f"({n},) whole numbers or ({n}, K) float logits, K > 1" if truth.ndim == 1 else f"{tuple(truth.shape)}"
        raise SplitbenchError(
            f"the guessed labels are {recovered.dtype} of shape {tuple(recovered.shape)}, the true ones have shape "
            f"{tuple(truth.shape)}; expected {wanted}"
        )
    return guess.to(truth.dtype), recovered.isnan().any(1)
