"""Training a network that arranges patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from splitbench.attacks._steps.descent import descend, shuffled
from splitbench.core.progress import steps


@dataclass(frozen=True)
class Course:
    steps: int
    batch: int
    lr: float


def trained(
    network: nn.Module,
    pool: Tensor,
    course: Course,
    loss: Callable[[Tensor], Tensor],
    generator: Generator,
    what: str,
) -> None:
    """In place, on batches of a pool of images of which `loss` says how wrong the network is."""
    optimizer = torch.optim.AdamW(network.parameters(), course.lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, course.lr, total_steps=max(2, course.steps), pct_start=0.15, cycle_momentum=False
    )
    batches = shuffled(pool, course.batch, generator)
    network.train()
    for _ in (bar := steps(what, course.steps)):
        wrong = loss(pool[next(batches)])
        descend(optimizer, wrong)
        schedule.step()
        bar.saw("loss", wrong)
    network.eval()
