"""What every metric of tables asks of its arguments before it computes anything."""

from __future__ import annotations

from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth


def unsuitable(truth: Truth) -> str | None:
    """Why the truth cannot be rows of described fields; None if it can."""
    values, fields = truth.values, len(truth.fields)
    if values.ndim != 2 or not values.is_floating_point():
        return f"tables are floats (N, F), the true values are {values.dtype} of shape {tuple(values.shape)}"
    if values.shape[1] != fields:
        return f"the rows have {values.shape[1]} columns and {fields} fields are described"
    return None


def checked(recovered: Tensor, truth: Truth) -> tuple[Tensor, Tensor]:
    """Both as float64, or a `SplitbenchError`."""
    if why := unsuitable(truth):
        raise SplitbenchError(why)
    if recovered.shape != truth.values.shape:
        raise SplitbenchError(
            f"the recovered rows have shape {tuple(recovered.shape)}, the true ones {tuple(truth.values.shape)}"
        )
    return recovered.detach().double(), truth.values.detach().double()
