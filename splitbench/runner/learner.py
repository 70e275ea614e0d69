"""A party's optimizer: how its layers follow their gradients, and how fast at which time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from splitbench.plan.cells import Training

_RISE = 0.3  # of a one-cycle training, the share in which the rate rises
_START = 0.04  # of the highest rate, where it begins


class Optimised:
    """One optimizer over all stages of a party. Its clock is the party's own steps."""

    def __init__(self, stages: Sequence[nn.Module], training: Training, steps: int) -> None:
        self.training, self.steps, self.taken = training, max(1, steps), 0
        self.optimizer = _optimizer(stages, training)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        rate = self.training.lr * rate_factor(self.training, self.taken / self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.taken += 1


def _optimizer(stages: Sequence[nn.Module], training: Training) -> Optimizer:
    # A party without parameters is allowed; torch refuses an empty list, so it is given one that never moves.
    parameters = [p for stage in stages for p in stage.parameters() if p.requires_grad] or [
        nn.Parameter(torch.zeros(0))
    ]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    common = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": fused}
    if training.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=training.momentum, **common)  # type: ignore[arg-type]
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, **common)  # type: ignore[arg-type]


def rate_factor(training: Training, progress: float) -> float:
    """Of the learning rate, how much is taken at a time from 0 to 1: a linear warm-up, then the schedule."""
    if training.schedule == "one_cycle":
        if progress < _RISE:
            return _START + (1 - _START) * progress / _RISE
        return 0.5 * (1 + math.cos(math.pi * (progress - _RISE) / (1 - _RISE)))
    epoch = progress * training.epochs
    if epoch < training.warmup:
        return (epoch + 1e-3) / training.warmup
    if training.schedule == "cosine":
        done = (epoch - training.warmup) / max(1e-9, training.epochs - training.warmup)
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0
