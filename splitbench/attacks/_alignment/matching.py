"""Making a client of the adversary's own smash public images as the real one does private ones."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.moments import PLACES_TO_CHOOSE, Moments
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._steps.descent import adam, descend, shuffled
from splitbench.core.progress import steps
from splitbench.core.view import View

_LOOKS, _LOOKED_AT = 6, 256  # times that a client is compared with what was sent earlier, and on how many images
_CHANNELS = 512  # at most so many take part in moments: their covariances are a square matrix


@dataclass(frozen=True)
class Matching:
    """How a client is matched."""

    steps: int
    batch: int
    lr: float
    labels: float = 0.0  # weight of suiting the server's layers beside matching the targets


def matched(
    client: nn.Module, view: View, how: Matching, generator: Generator, earlier: Tensor | None = None
) -> nn.Module:
    """Train a client until the moments of what it sends are those of the targets.

    Smashed data sent earlier are of a client that has since moved on, but there are more: they choose when to stop.

    What it sends is what passes the defense that the adversary imagines. `labels` weighs a second aim, that of PCAT
    (Gao and Zhang, USENIX Security 2023): to suit the server's layers, which stay as they are. Initialised from torch's
    global generator.
    """
    assert view.auxiliary is not None
    x, y = view.auxiliary.x, view.auxiliary.y
    grid = Grid.of_view(view)
    some = torch.randperm(grid.channels, generator=generator)[:_CHANNELS].to(x.device)
    wanted = Moments.of(grid.maps(view.merged)[:, some])
    server = Server(view, client, x[:1]) if how.labels else None
    client.train()
    optimizer = adam([*client.parameters(), *(server.head.parameters() if server else ())], how.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(how.steps, 1))
    batches = shuffled(x, how.batch, generator)
    judges = Moments.of(grid.maps(earlier)[:, some]) if earlier is not None and len(earlier) else None
    best, chosen = math.inf, client.state_dict()

    def look() -> None:
        nonlocal best, chosen
        if judges is not None:
            with torch.no_grad():
                seen = view.imagine(client(x[:_LOOKED_AT]), generator)
                apart = Moments.of(grid.maps(seen)[:, some]).apart(judges, PLACES_TO_CHOOSE).item()
            if apart < best:
                best, chosen = apart, copy.deepcopy(client.state_dict())

    for step in (bar := steps("shadow client", how.steps)):
        if step % max(1, how.steps // _LOOKS) == 0:
            look()
        picked = next(batches)
        z = view.imagine(client(x[picked]), generator)
        loss = Moments.of(grid.maps(z)[:, some]).apart(wanted)
        if server is not None:
            loss = loss + how.labels * server.task(z, y[picked])
        descend(optimizer, loss)
        schedule.step()
        bar.saw("loss", loss)
    look()
    if judges is not None:
        client.load_state_dict(chosen)
    return settled(client, x)


@torch.no_grad()
def settled(client: nn.Module, x: Tensor) -> nn.Module:
    """In evaluation mode, batch norm with the statistics of these images and not of those it saw while it changed."""
    norms = [m for m in client.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.momentum is not None]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    client.train()
    for part in torch.split(x, 256) if norms and len(x) > 1 else ():
        if len(part) > 1:
            client(part)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return client.eval()


def imitated(client: nn.Module, teacher: nn.Module, view: View, how: Matching, generator: Generator) -> nn.Module:
    """Train a client to make of public images what another makes of them, each channel in units of its spread."""
    assert view.auxiliary is not None
    x, grid = view.auxiliary.x, Grid.of_view(view)
    spread = grid.maps(smashed_by(teacher, x[:256])).std((0, 2, 3), keepdim=True)
    spread = spread.clamp(min=max(1e-3 * spread.max().item(), 1e-6))
    optimizer = adam(client.parameters(), how.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(how.steps, 1))
    batches = shuffled(x, how.batch, generator)
    client.train()
    for _ in (bar := steps("imitation", how.steps)):
        images = x[next(batches)]
        with torch.no_grad():
            wanted = teacher(images)
        loss = (grid.maps(client(images) - wanted) / spread).square().mean()
        descend(optimizer, loss)
        schedule.step()
        bar.saw("error", loss)
    return settled(client, x)


class Server:
    """The server's layers as they are, closed where they are not the last by a linear layer that is learned."""

    def __init__(self, view: View, client: nn.Module, x: Tensor) -> None:
        self.layers = nn.Sequential(*copy.deepcopy(list(view.stages))).eval().requires_grad_(False)
        with torch.no_grad():
            out = self.layers(client.eval()(x))
        self.head: nn.Module = nn.Identity()
        if out.shape[1:] != (view.classes,):
            self.head = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(out.shape[1:]), view.classes)).to(x.device)

    def task(self, z: Tensor, y: Tensor) -> Tensor:
        logits = self.head(self.layers(z))
        if y.ndim == 2:  # attributes
            return F.binary_cross_entropy_with_logits(logits, y.float())
        return F.cross_entropy(logits, y)


@torch.no_grad()
def smashed_by(client: nn.Module, x: Tensor) -> Tensor:
    """What a client of one's own makes of these images, a batch at a time."""
    return torch.cat([client(part) for part in torch.split(x, 128)])
