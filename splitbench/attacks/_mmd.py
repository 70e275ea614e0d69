"""The distance between two sets of features in several Gaussian kernels at once."""

from __future__ import annotations

import torch
from torch import Tensor

_SCALES = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # bandwidths, in mean squared distances


def mk_mmd(a: Tensor, b: Tensor) -> Tensor:
    """The unbiased squared maximum mean discrepancy of two batches, summed over five kernels.

    All distances come from one Gram matrix: no difference of two samples is ever written out.
    """
    rows = torch.cat((a.flatten(1), b.flatten(1)))
    gram = rows @ rows.T
    norms = gram.diagonal()
    distances = (norms[:, None] + norms - 2 * gram).clamp_min(0)
    n, m = len(a), len(b)
    mean = distances.detach().sum() / ((n + m) * (n + m - 1))
    kernels = torch.stack([torch.exp(-distances / (scale * mean).clamp_min(1e-12)) for scale in _SCALES]).sum(0)
    own = kernels - torch.diag(kernels.diagonal())  # a sample says nothing of its distance to itself
    return own[:n, :n].sum() / (n * (n - 1)) + own[n:, n:].sum() / (m * (m - 1)) - 2 * kernels[:n, n:].mean()
