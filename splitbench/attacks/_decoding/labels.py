"""Telling a network labels, as SDAR does: an embedding, spread over the places as one more channel."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

_EMBEDDING = 50


def told(labels: int, height: int, width: int) -> nn.Module | None:
    """From labels (N, K) to a channel (N, 1, H, W); None if there are none to be told."""
    if not labels:
        return None
    return nn.Sequential(
        nn.Linear(labels, _EMBEDDING, bias=False),
        nn.Linear(_EMBEDDING, height * width),
        nn.Unflatten(1, (1, height, width)),
    )


def as_numbers(y: Tensor, classes: int) -> Tensor:
    """Labels as (N, K) numbers: one-hot for classes, as they are for attributes."""
    return F.one_hot(y.long(), classes).float() if y.ndim == 1 else y.float()
