"""How much Gaussian noise lies on smashed data, read off the data alone."""

from __future__ import annotations

import torch
from torch import Tensor

_NORMAL = 0.6745  # the median of |N(0, 1)|
_QUIET = 0.1  # the share of maps, the quietest, that are believed to hold nothing but noise at the finest scale


def noise_level(z: Tensor) -> float:
    """An estimate of the noise's standard deviation, too high rather than too low.

    Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage", 1994: the median absolute coefficient of the
    finest diagonal wavelets, which see little but noise. https://doi.org/10.1093/biomet/81.3.425
    Departs from the paper: takes the quietest tenth of the maps, since feature maps of edges are not smooth.
    """
    if len(z) == 0:
        return 0.0
    detail = _diagonal(z) if z.dim() == 4 and min(z.shape[2:]) >= 2 else _steps(z)
    # The median leaves a few strong edges out of account; a map has many small coefficients.
    levels = detail.abs().flatten(0, 1).flatten(1).median(1).values / _NORMAL  # one for each map or sample
    return float(levels.quantile(_QUIET))


def _diagonal(z: Tensor) -> Tensor:
    """Haar's diagonal detail of (N, C, H, W); unit noise stays unit noise."""
    h, w = z.shape[2] // 2 * 2, z.shape[3] // 2 * 2
    a, b = z[..., 0:h:2, 0:w:2], z[..., 0:h:2, 1:w:2]
    c, d = z[..., 1:h:2, 0:w:2], z[..., 1:h:2, 1:w:2]
    return (a - b - c + d) / 2


def _steps(z: Tensor) -> Tensor:
    """Differences of neighbouring values, for tokens and vectors."""
    flat = z.reshape(len(z), 1, -1)
    return torch.diff(flat, dim=2) / 2**0.5
