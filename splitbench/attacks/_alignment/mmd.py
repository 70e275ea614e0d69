"""The distance between two sets of features in several Gaussian kernels at once."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

_SCALES = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # bandwidths, in mean squared distances


def mk_mmd(fixed: Tensor, learned: Tensor) -> Tensor:
    """The unbiased squared maximum mean discrepancy of two batches, summed over five kernels.

    Without the term of the fixed batch alone, which nothing that is learned changes. All distances come from Gram
    matrices, and so does the slope: no difference of two samples is ever written out.
    """
    value: Tensor = _Discrepancy.apply(fixed.flatten(1), learned.flatten(1))  # type: ignore[no-untyped-call]
    return value


class _Discrepancy(torch.autograd.Function):
    """The slope is by hand: two products, where autograd takes three."""

    @staticmethod
    def forward(ctx: Any, fixed: Tensor, learned: Tensor) -> Tensor:
        own, count = len(learned), len(learned) + len(fixed)
        gram = torch.cat((learned @ learned.T, learned @ fixed.T), 1)
        norms = torch.cat((gram.diagonal(), torch.linalg.vector_norm(fixed, dim=1).square()))
        # The mean over all pairs, those of fixed samples too, from all norms and the norm of the sum.
        whole = gram.sum() + gram[:, own:].sum() + fixed.sum(0).square().sum()
        mean = 2 * (norms.sum() - whole / count) / (count - 1)
        scales, weights = _constants(own, count, gram.dtype, gram.device)
        scales = scales * mean.clamp_min(1e-12)
        kernels = torch.exp(torch.sub(norms[:own, None] + norms, gram, alpha=2).clamp_min_(0) / -scales)
        ctx.save_for_backward(fixed, learned, weights * (kernels / scales).sum(0))
        return (weights * kernels.sum(0)).sum()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[None, Tensor]:
        fixed, learned, pull = ctx.saved_tensors
        own = len(learned)
        # A learned sample is drawn along its differences to all; a pair of learned ones counts in both orders.
        to_own, to_fixed = 4 * slopes[0] * pull[:, :own], 2 * slopes[0] * pull[:, own:]
        to_own.diagonal().sub_(to_own.sum(1) + to_fixed.sum(1))
        return None, (to_own @ learned).addmm_(to_fixed, fixed)


@functools.lru_cache(maxsize=8)
def _constants(own: int, count: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The bandwidths, and how much each pair counts. A sample says nothing of its distance to itself."""
    weights = torch.full((own, count), -2 / (own * (count - own)), dtype=torch.float64)
    weights[:, :own] = 1 / (own * (own - 1))
    weights.fill_diagonal_(0)
    scales = torch.tensor(_SCALES, dtype=torch.float64).view(-1, 1, 1)
    return scales.to(device, dtype), weights.to(device, dtype)
