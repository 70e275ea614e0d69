"""Which client holds which samples."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Generator, Tensor

from splitbench.core.errors import SplitbenchError, nearest


def partition(kind: str, labels: Tensor, clients: int, alpha: float, generator: Generator) -> list[Tensor]:
    """Every sample to one client and every client at least one sample; `alpha` matters to a Dirichlet partition."""
    if kind == "iid":
        return iid(labels, clients, generator)
    if kind == "dirichlet":
        return dirichlet(labels, clients, alpha, generator)
    raise SplitbenchError(f"no partition named '{kind}'{nearest(kind, ('iid', 'dirichlet'))}")


def iid(labels: Tensor, clients: int, generator: Generator) -> list[Tensor]:
    """Equal shares, to within one sample, of the shuffled data."""
    _check(len(labels), clients)
    order = torch.randperm(len(labels), generator=generator)
    return [part.clone() for part in order.tensor_split(clients)]


def dirichlet(labels: Tensor, clients: int, alpha: float, generator: Generator) -> list[Tensor]:
    """Each class shared out in proportions drawn from a Dirichlet; the smaller `alpha`, the more lopsided.

    Hsu, Qi and Brown, "Measuring the effects of non-identical data distribution", 2019. https://arxiv.org/abs/1909.06335
    Departs from common code, which draws again until every client has enough: a client left with nothing is given
    a sample of the largest client. Samples with several attributes go by their first.
    """
    _check(len(labels), clients)
    if not (alpha > 0 and math.isfinite(alpha)):
        raise SplitbenchError(f"alpha of a Dirichlet partition must be above 0, got {alpha}")
    # numpy's sampler stays exact for tiny alphas, where normalised gamma draws are 0/0.
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    _, y = np.unique((labels if labels.ndim == 1 else labels[:, 0]).numpy(), return_inverse=True)
    order = np.lexsort((rng.random(len(y)), y))  # by class, shuffled within
    counts = np.bincount(y)
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    shares = rng.dirichlet(np.full(clients, alpha), size=len(counts))  # (K, clients)
    ends = np.rint(shares.cumsum(1) * counts[:, None])  # where each client's part of a class ends
    owner = (rank[:, None] >= ends[y[order]]).sum(1)  # (N,), in the order of `order`
    for client in np.flatnonzero(np.bincount(owner, minlength=clients) == 0):
        largest = np.bincount(owner, minlength=clients).argmax()
        owner[rng.choice(np.flatnonzero(owner == largest))] = client
    return [torch.from_numpy(rng.permutation(order[owner == client])) for client in range(clients)]


def _check(samples: int, clients: int) -> None:
    if clients < 1:
        raise SplitbenchError(f"there must be at least one client, got {clients}")
    if clients > samples:
        raise SplitbenchError(f"{samples} samples cannot be shared among {clients} clients: some would have none")
