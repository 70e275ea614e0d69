"""A client of the adversary's own, made to smash public images as the real one does private ones."""

from __future__ import annotations

import copy
import itertools
import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._grid import Grid
from splitbench.core.progress import tell
from splitbench.core.view import View

_OFFSETS = ((0, 0), (0, 1), (1, 0))  # places whose channels are correlated with each other
_CHANNELS = 512  # at most so many take part: the correlations are a square matrix
_PLACES = 10.0  # weight of the mean at each place, which alone tells a feature from its negative


def shadow_client(view: View, steps: int, batch: int, lr: float, labels: float, generator: Generator) -> nn.Module:
    """The client's layers, trained until the moments of what they send are those of the targets.

    What they send is what passes the defense that the adversary imagines.

    `labels` weighs a second aim, that of PCAT (Gao and Zhang, USENIX Security 2023): to suit the server's layers, which
    stay as they are. Where the server does not hold the last ones, a linear layer stands for them.
    Initialised from torch's global generator.
    """
    assert view.template is not None
    assert view.auxiliary is not None
    x, y = view.auxiliary.x, view.auxiliary.y
    client = view.template().to(x.device)
    grid = Grid.of(view.targets.shape[1:], view.shape)
    some = torch.randperm(grid.channels, generator=generator)[:_CHANNELS]
    wanted = _moments(grid.maps(view.targets)[:, some])
    server = nn.Sequential(*copy.deepcopy(list(view.stages))).eval().requires_grad_(False)
    head = _head(server, client, x[:1], view.classes) if labels else nn.Identity()
    client.train()
    optimizer = torch.optim.Adam(itertools.chain(client.parameters(), head.parameters()), lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < min(batch, len(x)):  # whole batches only: batch norm cannot train on a single sample
            order = torch.randperm(len(x), generator=generator)
        picked, order = order[:batch], order[batch:]
        z = view.imagine(client(x[picked]), generator)
        loss = _distance(_moments(grid.maps(z)[:, some]), wanted)
        if labels:
            loss = loss + labels * _task(head(server(z)), y[picked])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            tell("shadow client", step, steps, f"loss {loss.item():.4f}")
    tell("shadow client", steps, steps)
    return client.eval().requires_grad_(False)


Moments = tuple[Tensor, Tensor]


def _moments(maps: Tensor) -> Moments:
    """The mean of each channel at each place (C, H, W), and the covariance of channels a step apart (3, C, C)."""
    mean = maps.mean(0)
    centred = (maps - mean.mean((1, 2), keepdim=True)).transpose(0, 1)  # (C, N, H, W)
    height, width = mean.shape[1:]
    products = []
    for down, right in _OFFSETS:
        a, b = centred[:, :, down:, right:], centred[:, :, : height - down, : width - right]
        products.append(a.flatten(1) @ b.flatten(1).T / max(a[0].numel(), 1))
    return mean, torch.stack(products)


def _distance(have: Moments, wanted: Moments) -> Tensor:
    """How far apart, in units of the wanted standard deviations."""
    spread = wanted[1][0].diagonal().sqrt()
    spread = spread.clamp(min=max(1e-3 * spread.max().item(), 1e-6))
    places = ((have[0] - wanted[0]) / spread[:, None, None]).square().mean()
    products = ((have[1] - wanted[1]) / torch.outer(spread, spread)).square().mean((1, 2)).sum()
    return _PLACES * places + products


def _head(server: nn.Module, client: nn.Module, x: Tensor, classes: int) -> nn.Module:
    with torch.no_grad():
        out = server(client.eval()(x))
    if out.shape[1:] == (classes,):
        return nn.Identity()
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(out.shape[1:]), classes)).to(x.device)


def _task(logits: Tensor, y: Tensor) -> Tensor:
    if y.ndim == 2:  # attributes
        return F.binary_cross_entropy_with_logits(logits, y.float())
    return F.cross_entropy(logits, y)
