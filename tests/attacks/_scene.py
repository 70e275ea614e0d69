"""Small views on small clients, so that an attack can be judged from both sides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from splitbench.core.attack import ActiveAttack
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from splitbench.core.wire import Message

CLASSES = 4
SIDE = 16


class Identity(nn.Module):
    """A client that sends the image itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Silence(nn.Module):
    """A client that sends only zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def convolution() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.ReLU())


def images(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """A bright block somewhere on a dark ground, in a place that its class favours."""
    draws = generator(seed, "images")
    y = torch.randint(CLASSES, (count,), generator=draws)
    corner = torch.stack([y % 2, y // 2], 1) * (SIDE // 2) + torch.randint(0, SIDE // 4, (count, 2), generator=draws)
    rows = torch.arange(SIDE).view(1, SIDE, 1) - corner[:, :1, None]
    columns = torch.arange(SIDE).view(1, 1, SIDE) - corner[:, 1:, None]
    block = ((rows >= 0) & (rows < 5) & (columns >= 0) & (columns < 5)).float()
    shade = 0.5 + 0.5 * torch.rand(count, 1, 1, generator=draws)
    ground = 0.2 * torch.rand(count, SIDE, SIDE, generator=draws)
    return (ground + block * shade).clamp(0, 1).unsqueeze(1), y


@dataclass(frozen=True)
class Scene:
    view: View
    truth: Tensor
    client: nn.Module
    messages: Sequence[Message] = ()  # what an online attack would hear during training


@contextmanager
def scene(make: Callable[[], nn.Module], threat: ThreatModel | None = None, targets: int = 16) -> Iterator[Scene]:
    """A view of a client, and the truth that it does not hold."""
    threat = threat or ThreatModel(labels=True, architecture=True, auxiliary=256, queries=256)
    with seeded(0, "client"):
        client = make().eval().requires_grad_(False)
        shape = client(torch.zeros(1, 1, SIDE, SIDE)).shape
        server = nn.Sequential(nn.Flatten(), nn.Linear(shape[1:].numel(), CLASSES)).eval().requires_grad_(False)
    truth, y = images(targets, 1)
    x, labels = images(256, 2)
    with Query.open(client, threat.queries) as query:
        yield Scene(
            View(
                threat=threat,
                targets=client(truth).clone(),
                shape=(1, SIDE, SIDE),
                classes=CLASSES,
                stages=[server],
                labels=y if threat.labels else None,
                template=make if threat.architecture else None,
                auxiliary=Auxiliary(x[: threat.auxiliary], labels[: threat.auxiliary]) if threat.auxiliary else None,
                query=query if threat.queries else None,
            ),
            truth,
            client,
            [_message(step, client(images(32, 3 + step)[0])) for step in range(16)],
        )


def hijacked(attack: ActiveAttack, made: Scene, draws: Generator, steps: int = 60) -> Scene:
    """The scene after its client was trained by what the attack sends it."""
    client = copy.deepcopy(made.client).requires_grad_(True).train()
    attack.begin(replace(made.view, targets=made.view.targets[:0]), draws)
    parameters = list(client.parameters())
    optimizer = torch.optim.Adam(parameters or [nn.Parameter(torch.zeros(0))], 1e-2)
    for step in range(steps):
        z = client(images(32, 3 + step)[0])
        attack.hear(_message(step, z.detach()))
        sent = attack.tamper(Message(step, SERVER, CLIENT, "gradient", 0, torch.zeros_like(z))).tensor
        if parameters:
            optimizer.zero_grad()
            z.backward(sent)
            optimizer.step()
    with torch.no_grad():
        return replace(made, view=replace(made.view, targets=client.eval()(made.truth).clone()), client=client)


def _message(step: int, z: Tensor) -> Message:
    return Message(step, CLIENT, SERVER, "smashed", 0, z)
