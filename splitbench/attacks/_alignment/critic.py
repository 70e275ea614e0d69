"""Telling real features from made ones, in the ways of Wasserstein and of the first adversarial networks."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.labels import told

Norm = Literal["flat", "per_channel"]


class Critic(nn.Module):
    """One number for each sample, from its maps: a convolution in twos, residual blocks, another in twos, a sum.

    FSHA's has width 256 and six blocks, in its first code at the size of the maps, in others' at half of it as here.
    No batch norm: the penalty is about each sample by itself.
    """

    def __init__(self, grid: Grid, width: int, blocks: int, labels: int = 0, dropout: float = 0.0) -> None:
        """`labels`: how many numbers a label has, if it is told them."""
        super().__init__()
        self.grid = grid
        self.label = told(labels, grid.height, grid.width)
        self.stem = nn.Conv2d(grid.channels + bool(labels), width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LeakyReLU(0.2),
                nn.Conv2d(width, width, 3, padding=1),
                nn.LeakyReLU(0.2),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(blocks)
        )
        self.fall = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width * -(-grid.height // 4) * -(-grid.width // 4), 1)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """(N,). Labels are (N, K), one-hot or attributes."""
        maps = self.grid.maps(z)
        if self.label is not None and labels is not None:
            maps = torch.cat((maps, self.label(labels)), 1)
        h = self.stem(maps)
        for block in self.blocks:
            h = h + block(h)
        h = F.leaky_relu(self.fall(F.leaky_relu(h, 0.2)), 0.2)
        score: Tensor = self.out(self.dropout(h.flatten(1)))
        return score[:, 0]


def wasserstein(critic: Critic, real: Tensor, made: Tensor, weight: float, norm: Norm, generator: Generator) -> Tensor:
    """The critic's loss: low where features are real, high where they are made, and a slope of one in between."""
    scores: Tensor = critic(torch.cat((real, made)))
    gap = scores[: len(real)].mean() - scores[len(real) :].mean()
    return gap + weight * _penalty(critic, real, made, norm, generator)


def _penalty(critic: Critic, real: Tensor, made: Tensor, norm: Norm, generator: Generator) -> Tensor:
    """How far the slope is from one between real and made features.

    `flat`: of all features of a sample together. `per_channel`: over the places of each channel, as FSHA's own code
    does, a weaker constraint by about the square root of the number of channels.
    """
    count = min(len(real), len(made))
    share = torch.rand((count, *(1 for _ in real.shape[1:])), generator=generator).to(real)
    between = (share * real[:count] + (1 - share) * made[:count]).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    maps = critic.grid.maps(slope)
    # A slope of zero has no direction to be lengthened in; the small number keeps its root differentiable.
    squared = maps.square().sum((2, 3)) if norm == "per_channel" else maps.square().sum((1, 2, 3))
    return ((squared + 1e-12).sqrt() - 1).square().mean()


Seen = tuple[Tensor, Tensor | None]  # features or images, and their labels if these are told


def judged(critic: Critic, real: Seen, made: Seen, flip: float = 0.0) -> Tensor:
    """A discriminator's loss: binary cross entropy, with the truth moved towards the middle by `flip`."""
    labels = torch.cat((real[1], made[1])) if real[1] is not None and made[1] is not None else None
    scores = critic(torch.cat((real[0], made[0])), labels)
    truth = torch.full_like(scores, flip)
    truth[: len(real[0])] = 1 - flip
    return F.binary_cross_entropy_with_logits(scores, truth)


def fooling(critic: Critic, made: Seen) -> Tensor:
    """Generator loss: how far the critic is from taking the fake for real."""
    scores = critic(*made)
    return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
