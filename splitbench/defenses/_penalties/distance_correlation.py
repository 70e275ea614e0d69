"""How much two samples of vectors depend on each other, by the distances within each.

Székely, Rizzo and Bakirov, "Measuring and testing dependence by correlation of distances", 2007; the bias-corrected
estimator is Székely and Rizzo, "The distance correlation t-test of independence in high dimension", 2013.
"""

from __future__ import annotations

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """The plain estimator, in [0, 1]: near 1 for a small batch of independent vectors of high dimension.

    Zero, with a gradient of zero, where one side does not vary at all, as in a batch of one.
    """
    a, b = _centred(_distances(x)), _centred(_distances(y))
    return _root(_correlation(a, b))


def corrected_distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """The bias-corrected estimator of the *squared* distance correlation: about 0 for independent vectors."""
    if len(x) < 4:
        raise SplitbenchError(f"the bias-corrected distance correlation needs at least 4 samples, got {len(x)}")
    return _correlation(_u_centred(_distances(x)), _u_centred(_distances(y)))


def _distances(x: Tensor) -> Tensor:
    """(N, N) Euclidean distances of the flattened rows; tokens are taken as one-hot vectors."""
    flat = x.flatten(1)
    if not flat.is_floating_point():
        return (2.0 * (flat[:, None] != flat).sum(-1)).sqrt()
    flat = flat - flat.mean(0)  # keeps the digits that the subtraction below would lose
    norms = flat.square().sum(1)
    sizes = norms[:, None] + norms
    squared = sizes - 2 * flat @ flat.T
    # What is no more than rounding is no distance, and its slope could be anything. The diagonal always is.
    noise = 8 * torch.finfo(flat.dtype).eps * sizes.detach()
    return _root(torch.where(squared <= noise, 0, squared))


def _centred(d: Tensor) -> Tensor:
    return d - d.mean(0) - d.mean(1, keepdim=True) + d.mean()


def _u_centred(d: Tensor) -> Tensor:
    n = len(d)
    rows = d.sum(1) / (n - 2)
    centred = d - rows - rows[:, None] + d.sum() / ((n - 1) * (n - 2))
    return centred - torch.diag(centred.diagonal())


def _correlation(a: Tensor, b: Tensor) -> Tensor:
    spread = _root(a.square().mean()) * _root(b.square().mean())
    return (a * b).mean() / torch.where(spread == 0, 1, spread)


def _root(x: Tensor) -> Tensor:
    """The square root, with 0 for what rounding made negative and a slope of 0, not of infinity, at 0."""
    nothing = x <= 0  # false for NaN, which stays one
    return torch.where(nothing, 1, x).sqrt() * ~nothing
