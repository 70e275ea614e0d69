"""Training a network from smashed data to images, in [-1, 1], on pairs."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._steps.descent import descend, shuffled
from splitbench.core.progress import show, steps

_LOOKS = 8  # times that training stops to look at the pairs kept aside


@dataclass(frozen=True)
class How:
    """AdamW on squared error."""

    steps: int
    batch: int
    lr: float
    decay: float  # of the weights
    warm: float  # the share of the steps in which the rate rises
    schedule: str  # "cosine" to nothing after that, or "constant"


def rate(step: int, how: How) -> float:
    """The share of the learning rate at a step."""
    warm = how.warm * how.steps
    if step < warm:
        return (step + 1) / (warm + 1)
    if how.schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * (step - warm) / max(1.0, how.steps - warm))) / 2


def fitted(decoder: nn.Module, z: Tensor, x: Tensor, how: How, generator: Generator, wanted: Tensor) -> nn.Module:
    """The decoder as it was when it did best on the last eighth of the pairs, at most 256 of them."""
    aside = min(len(x) // 8, 256)
    seen = len(x) - aside
    kept = slice(seen, None) if aside else slice(None)  # too few to spare any
    optimizer = torch.optim.AdamW(decoder.parameters(), how.lr, betas=(0.9, 0.95), weight_decay=how.decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, how))
    batches = shuffled(x[:seen], how.batch, generator)
    best, chosen = math.inf, decoder
    every = max(1, how.steps // _LOOKS)
    for step in (bar := steps("decoder", how.steps)):
        rows = next(batches)
        loss = F.mse_loss(decoder(z[rows]), 2 * x[rows] - 1)
        descend(optimizer, loss)
        schedule.step()
        bar.saw("loss", loss)
        if (step + 1) % every == 0 or step + 1 == how.steps:
            error = F.mse_loss(decoded(decoder, z[kept]), x[kept]).item()
            if error < best:
                best, chosen = error, copy.deepcopy(decoder)
            show(f"step {step + 1}", lambda: decoded(decoder, wanted))
    return chosen


@torch.no_grad()
def decoded(decoder: nn.Module, z: Tensor) -> Tensor:
    """Images in [0, 1], a batch at a time."""
    return torch.cat([(decoder(part) + 1) / 2 for part in torch.split(z, 128)]).clamp(0, 1)
