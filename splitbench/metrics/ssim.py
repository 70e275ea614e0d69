"""Structural similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked, unsuitable

_WINDOW, _SIGMA = 11, 1.5
_C1, _C2 = 0.01**2, 0.03**2  # (K1 L)^2 and (K2 L)^2 for a data range L of 1
_CHUNK = 256  # images at a time: five maps each in double precision


@dataclass(frozen=True)
class SSIM(Metric):
    """The mean structural similarity of each image: a sliding 11x11 Gaussian window, averaged over its channels.

    Wang et al., "Image Quality Assessment: From Error Visibility to Structural Similarity", IEEE TIP 13(4), 2004,
    equations 13 and 17. https://doi.org/10.1109/TIP.2003.819861
    Sigma 1.5, population covariance, only windows that lie inside the image, data range 1; colour images are scored
    channel by channel, of which the paper does not speak.
    """

    modality: ClassVar[str | None] = "image"
    version: ClassVar[int | str] = "wang2004"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth, _WINDOW)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values, smallest=_WINDOW)
        pairs = zip(torch.split(recovered, _CHUNK), torch.split(true, _CHUNK), strict=True)
        return torch.cat([_ssim(a, b) for a, b in pairs])


def _ssim(a: Tensor, b: Tensor) -> Tensor:
    # Channels are images here: the window is the same for all.
    planes = torch.stack((a, b, a * a, b * b, a * b)).flatten(0, 2).unsqueeze(1)  # (5 N C, 1, H, W)
    blurred = _blur(planes)
    mean_a, mean_b, aa, bb, ab = blurred.reshape(5, *a.shape[:2], *blurred.shape[2:]).unbind()
    var_a, var_b, cov = aa - mean_a.square(), bb - mean_b.square(), ab - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + _C1) / (mean_a.square() + mean_b.square() + _C1)
    structure = (2 * cov + _C2) / (var_a + var_b + _C2)
    return (luminance * structure).flatten(1).mean(1)


def _blur(x: Tensor) -> Tensor:
    """The Gaussian window as two one-dimensional ones, over the valid region."""
    offset = torch.arange(_WINDOW, dtype=x.dtype, device=x.device) - _WINDOW // 2
    window = torch.exp(-0.5 * (offset / _SIGMA) ** 2)
    window = window / window.sum()
    return F.conv2d(F.conv2d(x, window.view(1, 1, -1, 1)), window.view(1, 1, 1, -1))
