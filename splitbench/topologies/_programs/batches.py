"""Which samples meet in which step of an epoch."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Plan


def once(size: int, plan: Plan, generator: Generator) -> list[Tensor]:
    """All samples once, in a new order."""
    refuse_idle(plan)
    return _batches(torch.randperm(size, generator=generator), plan.batch)


def until_the_longest_is_done(size: int, plan: Plan, generator: Generator) -> list[Tensor]:
    """As many samples as the largest client has; a smaller one starts again in another order, so that a batch can
    hold a sample twice."""
    refuse_idle(plan)
    longest = max(plan.sizes)
    orders = [torch.randperm(size, generator=generator) for _ in range(-(-longest // size))]
    return _batches(torch.cat(orders)[:longest], plan.batch)


def count(size: int, batch: int) -> int:
    """How many batches so many samples make."""
    whole, rest = divmod(size, batch)
    return whole + (rest > 1 or (rest == 1 and whole == 0))  # a single sample left over joins the last batch


def _batches(order: Tensor, batch: int) -> list[Tensor]:
    parts = list(torch.split(order, batch))
    # Batch norm has nothing to average over in a batch of one, unless that is what was asked for.
    if batch > 1 and len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def refuse_idle(plan: Plan) -> None:
    idle = [str(client) for client, size in enumerate(plan.sizes) if size == 0]
    if idle:
        raise SplitbenchError(
            f"no samples for client {', '.join(idle)} of {len(plan.sizes)}; take fewer clients, more samples, "
            "or a more even partition"
        )
