"""The distance between two sets of features in several Gaussian kernels at once."""

from __future__ import annotations

import torch
from torch import Tensor

_SCALES = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # bandwidths, in mean squared distances


def mk_mmd(a: Tensor, b: Tensor) -> Tensor:
    """The unbiased squared maximum mean discrepancy of two batches, summed over five kernels.

    All distances come from Gram matrices, one for each pair of sets, so that a set that is not learned costs no
    backward pass; no difference of two samples is ever written out.
    """
    n, m = len(a), len(b)
    a, b = a.flatten(1), b.flatten(1)
    inner = {"aa": a @ a.T, "ab": a @ b.T, "bb": b @ b.T}
    of_a, of_b = inner["aa"].diagonal(), inner["bb"].diagonal()
    norms = {"aa": of_a[:, None] + of_a, "ab": of_a[:, None] + of_b, "bb": of_b[:, None] + of_b}
    apart = {pair: (norms[pair] - 2 * inner[pair]).clamp_min(0) for pair in inner}
    with torch.no_grad():
        total = apart["aa"].sum() + apart["bb"].sum() + 2 * apart["ab"].sum()
        mean = (total / ((n + m) * (n + m - 1))).clamp_min(1e-12)
    scales = mean * torch.tensor(_SCALES, dtype=mean.dtype, device=mean.device).view(-1, 1, 1)
    alike = {pair: torch.exp(-d / scales).sum(0) for pair, d in apart.items()}
    # A sample says nothing of its distance to itself.
    own_a = (alike["aa"].sum() - alike["aa"].diagonal().sum()) / (n * (n - 1))
    own_b = (alike["bb"].sum() - alike["bb"].diagonal().sum()) / (m * (m - 1))
    return own_a + own_b - 2 * alike["ab"].mean()
