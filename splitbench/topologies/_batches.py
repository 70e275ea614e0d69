"""Which samples meet in which step of an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import torch
from torch import Generator, Tensor

from splitbench.core.errors import SplitbenchError

Step = list[tuple[int, Tensor]]


def in_turn(sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[Step]:
    """Client 0 with all of its samples, then client 1, and so on."""
    _refuse_idle(sizes)
    for client, size in enumerate(sizes):
        for rows in _batches(torch.randperm(size, generator=generator), batch):
            yield [(client, rows)]


def side_by_side(sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[Step]:
    """Every client passes once over its own samples; who has fewer is done earlier."""
    _refuse_idle(sizes)
    queues = [_batches(torch.randperm(size, generator=generator), batch) for size in sizes]
    for step in zip_longest(*queues):
        yield [(client, rows) for client, rows in enumerate(step) if rows is not None]


def in_unison(sizes: Sequence[int], batch: int, generator: Generator) -> Iterator[Step]:
    """Every client in every step, with equally many samples, until the largest has shown each of its own once.

    Who has fewer starts again in another order, so its batch can hold a sample twice.
    """
    _refuse_idle(sizes)
    longest = max(sizes)
    queues = [_batches(_rounds(size, longest, generator), batch) for size in sizes]
    for step in zip(*queues, strict=True):
        yield list(enumerate(step))


def _rounds(size: int, length: int, generator: Generator) -> Tensor:
    orders = [torch.randperm(size, generator=generator) for _ in range(-(-length // size))]
    return torch.cat(orders)[:length]


def _batches(order: Tensor, batch: int) -> list[Tensor]:
    parts = list(torch.split(order, batch))
    # Batch norm has nothing to average over in a batch of one.
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def _refuse_idle(sizes: Sequence[int]) -> None:
    idle = [str(client) for client, size in enumerate(sizes) if size == 0]
    if idle:
        raise SplitbenchError(
            f"no samples for client {', '.join(idle)} of {len(sizes)}; take fewer clients, more samples, "
            "or a more even partition"
        )
