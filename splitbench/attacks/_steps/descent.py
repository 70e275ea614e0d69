"""Batches and steps, as every training loop of an attack takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Generator, Tensor, nn


def shuffled(pool: Tensor, batch: int, generator: Generator) -> Iterator[Tensor]:
    """Rows of a pool for ever, in a new order each time round; whole batches only, unless it has fewer rows."""
    count = len(pool)
    while True:
        order = some(pool, count, generator)
        whole = order[: max(batch, count - count % batch)] if count >= batch else order
        yield from torch.split(whole, batch)


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Of those that can be learned; a client without any is allowed, which torch is given one that never moves for."""
    learned = [p for p in parameters if p.requires_grad]
    return torch.optim.Adam(learned or [nn.Parameter(torch.zeros(0))], lr)


def draw(pool: Tensor, batch: int, generator: Generator) -> Tensor:
    """So many rows of a pool, each at most once."""
    return pool[some(pool, batch, generator)]


def some(pool: Tensor, count: int, generator: Generator) -> Tensor:
    """The numbers of so many rows of a pool, each at most once: drawn on the CPU, and where the pool is."""
    return torch.randperm(len(pool), generator=generator)[:count].to(pool.device)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step on the parameters of this optimiser alone: nobody else's gradients are computed."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.numel()]
    # A client without parameters has nothing to learn; its schedule still expects the step.
    slopes = torch.autograd.grad(loss, parameters, allow_unused=True) if parameters else ()
    for parameter, slope in zip(parameters, slopes, strict=True):
        parameter.grad = slope
    optimizer.step()
