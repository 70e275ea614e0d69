"""The total variation of images, as UnSplit measures it."""

from __future__ import annotations

from torch import Tensor


def total_variation(x: Tensor) -> Tensor:
    """(N,): squared differences of neighbours in both directions, over the number of values in an image."""
    size = x[0].numel()
    down = (x[..., 1:, :] - x[..., :-1, :]).square().flatten(1).sum(1)
    across = (x[..., 1:] - x[..., :-1]).square().flatten(1).sum(1)
    return (down + across) / size
