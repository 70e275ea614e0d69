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

    def __init__(self, stages: Sequence[nn.Module], training: Training, steps: int, head: bool = False) -> None:
        """`head`: whether the network's last layer is among these."""
        self.training, self.steps, self.taken = training, max(1, steps), 0
        self.optimizer = _optimizer(stages, training, head and training.head_lr > 0)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        factor = rate_factor(self.training, self.taken / self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = group["highest"] * factor
        self.optimizer.step()
        self.taken += 1


def _optimizer(stages: Sequence[nn.Module], training: Training, head: bool) -> Optimizer:
    # A party without parameters is allowed; torch refuses an empty list, so it is given one that never moves.
    parameters = [p for stage in stages for p in stage.parameters() if p.requires_grad] or [
        nn.Parameter(torch.zeros(0))
    ]
    last = {id(p) for p in _last_layer(stages[-1])} if head else set()
    groups = [
        {"params": [p for p in parameters if (id(p) in last) == inside], "highest": highest, "lr": highest}
        for inside, highest in ((False, training.lr), (True, training.head_lr))
    ]
    groups = [group for group in groups if group["params"]]
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)
    common = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": fused}
    if training.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=training.momentum, **common)  # type: ignore[arg-type]
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, **common)  # type: ignore[arg-type]


def _last_layer(stage: nn.Module) -> list[nn.Parameter]:
    """The parameters of the last module that has its own: the classifier."""
    own = [list(module.parameters(recurse=False)) for module in stage.modules()]
    return next((parameters for parameters in reversed(own) if parameters), [])


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
        return training.end + (1 - training.end) * 0.5 * (1 + math.cos(math.pi * done))
    return 1.0
