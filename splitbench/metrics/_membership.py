"""What every metric of membership asks of its arguments before it computes anything."""

from __future__ import annotations

from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth


def unsuitable(truth: Truth) -> str | None:
    """Why the truth cannot be membership; None if it can."""
    values = truth.values
    if values.is_floating_point() or values.ndim != 1:
        return f"membership is whole numbers (N,), this is {values.dtype} of shape {tuple(values.shape)}"
    if values.is_meta:  # sizes without numbers
        return None
    if not ((values == 0) | (values == 1)).all():
        return "membership is 1 for members and 0 for others, and there are other values"
    if not values.any() or values.all():
        return "there must be members and non-members to tell apart"
    return None


def parted(recovered: Tensor, truth: Truth) -> tuple[Tensor, Tensor]:
    """The scores of the members and of the others, as float64."""
    if why := unsuitable(truth):
        raise SplitbenchError(why)
    if recovered.shape != truth.values.shape:
        raise SplitbenchError(
            f"the scores have shape {tuple(recovered.shape)}; expected one for each of {len(truth)} samples"
        )
    scores = recovered.detach().double()
    return scores[truth.values == 1], scores[truth.values == 0]
