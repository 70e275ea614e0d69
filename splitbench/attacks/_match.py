"""Making a client of the adversary's own smash public images as the real one does private ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._grid import Grid
from splitbench.attacks._moments import Moments
from splitbench.core.progress import steps
from splitbench.core.view import View

_CHANNELS = 512  # at most so many take part in moments: their covariances are a square matrix


@dataclass(frozen=True)
class Matching:
    """How a client is matched."""

    steps: int
    batch: int
    lr: float
    labels: float = 0.0  # weight of suiting the server's layers beside matching the targets


def matched(client: nn.Module, view: View, how: Matching, generator: Generator) -> nn.Module:
    """Train a client until the moments of what it sends are those of the targets.

    Earlier smashed data would be more, but of a client that has since moved on.

    What it sends is what passes the defense that the adversary imagines. `labels` weighs a second aim, that of PCAT
    (Gao and Zhang, USENIX Security 2023): to suit the server's layers, which stay as they are. Initialised from torch's
    global generator.
    """
    assert view.auxiliary is not None
    x, y = view.auxiliary.x, view.auxiliary.y
    grid = Grid.of(view.targets.shape[1:], view.shape)
    some = torch.randperm(grid.channels, generator=generator)[:_CHANNELS]
    wanted = Moments.of(grid.maps(view.targets)[:, some])
    server = Server(view, client, x[:1]) if how.labels else None
    client.train()
    optimizer = adam([*client.parameters(), *(server.head.parameters() if server else ())], how.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(how.steps, 1))
    batches = shuffled(len(x), how.batch, generator)
    for _ in (bar := steps("shadow client", how.steps)):
        picked = next(batches)
        z = view.imagine(client(x[picked]), generator)
        loss = Moments.of(grid.maps(z)[:, some]).apart(wanted)
        if server is not None:
            loss = loss + how.labels * server.task(z, y[picked])
        if loss.requires_grad:  # not where there is nothing to learn
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        bar.saw("loss", loss)
    return client.eval()


def imitated(client: nn.Module, teacher: nn.Module, x: Tensor, how: Matching, generator: Generator) -> nn.Module:
    """Train a client to make of images what another makes of them, each channel in units of its spread."""
    grid = Grid.of(teacher(x[:1]).shape[1:], tuple(x.shape[1:]))
    spread = grid.maps(smashed_by(teacher, x[:256])).std((0, 2, 3), keepdim=True)
    spread = spread.clamp(min=max(1e-3 * spread.max().item(), 1e-6))
    optimizer = adam(client.parameters(), how.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(how.steps, 1))
    batches = shuffled(len(x), how.batch, generator)
    client.train()
    for _ in (bar := steps("imitation", how.steps)):
        images = x[next(batches)]
        with torch.no_grad():
            wanted = teacher(images)
        loss = (grid.maps(client(images) - wanted) / spread).square().mean()
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        bar.saw("error", loss)
    return client.eval()


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


def shuffled(count: int, batch: int, generator: Generator) -> Iterator[Tensor]:
    """Rows for ever, in a new order each time round; whole batches only, unless there are fewer rows than one."""
    while True:
        order = torch.randperm(count, generator=generator)
        whole = order[: max(batch, count - count % batch)] if count >= batch else order
        yield from torch.split(whole, batch)


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Of those that can be learned; a client without any is allowed, which torch is given one that never moves for."""
    learned = [p for p in parameters if p.requires_grad]
    return torch.optim.Adam(learned or [nn.Parameter(torch.zeros(0))], lr)


@torch.no_grad()
def smashed_by(client: nn.Module, x: Tensor) -> Tensor:
    """What a client of one's own makes of these images, a batch at a time."""
    return torch.cat([client(part) for part in torch.split(x, 128)])
