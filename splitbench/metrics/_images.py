"""What every metric of images asks of its arguments before it computes anything."""

from __future__ import annotations

from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth

# A decoder's last rounding may leave [0, 1] by this much; a wrong range leaves it by far more.
_SLACK = 1e-4


def unsuitable(truth: Truth, smallest: int = 1) -> str | None:
    """Why the truth cannot be compared as images of at least `smallest` pixels a side; None if it can."""
    shape = tuple(truth.values.shape)
    if len(shape) != 4:
        return f"the true values have shape {shape}, images are (N, C, H, W)"
    if min(shape[-2:]) < smallest:
        return f"images of {shape[-2]}x{shape[-1]} pixels are smaller than the {smallest}x{smallest} window"
    return None


def checked(recovered: Tensor, truth: Tensor, smallest: int = 1) -> tuple[Tensor, Tensor]:
    """Both as float64, or a `SplitbenchError`. NaN is let through: it must end as NaN in that image's score.

    Single precision is not enough where an image is nearly constant: a variance is the small difference of two
    large means.
    """
    if recovered.shape != truth.shape or truth.ndim != 4:
        raise SplitbenchError(
            f"the recovered images have shape {tuple(recovered.shape)}, the true ones {tuple(truth.shape)}; "
            "both must be the same (N, C, H, W)"
        )
    for name, x in (("recovered", recovered), ("true", truth)):
        if not x.is_floating_point():
            raise SplitbenchError(f"the {name} images are {x.dtype}; divide by 255 to have floats in [0, 1]")
        inside = ((x >= -_SLACK) & (x <= 1 + _SLACK)) | x.isnan()
        if not inside.all():
            low, high = x[~inside].min().item(), x[~inside].max().item()
            raise SplitbenchError(
                f"the {name} images hold values such as {low:.4g} and {high:.4g}; "
                "metrics are defined for [0, 1]: clamp or rescale first"
            )
    if min(truth.shape[-2:]) < smallest:
        raise SplitbenchError(
            f"images of {truth.shape[-2]}x{truth.shape[-1]} pixels are smaller than the {smallest}x{smallest} window; "
            "leave this metric out, or use larger images"
        )
    return recovered.detach().double(), truth.detach().double()
