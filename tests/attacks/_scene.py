"""Small views on small clients, so that an attack can be judged from both sides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor, nn

from splitbench.core.attack import ActiveAttack
from splitbench.core.data import Field
from splitbench.core.layout import Layout, by_rank, on_grid
from splitbench.core.message import Message
from splitbench.core.metric import Truth
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from tests.attacks._tokens import pictures

CLASSES = 4
SIDE = 16
WORDS, LENGTH = 40, 6
FIELDS = (Field("age"), Field("city", 5), Field("height"), Field("colour", 7))
PUBLIC = 256
EVERYTHING = ThreatModel(labels=True, architecture=True, weights=True, auxiliary=PUBLIC, queries=PUBLIC)

Sends = Callable[[Tensor], Tensor]


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


class Tiles(nn.Module):
    """A client that sends a token for each of 4 x 4 patches, or, if it is silent, nothing."""

    loud = True

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 64, SIDE // 4, stride=SIDE // 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.embed(x).flatten(2).transpose(1, 2)
        return found if self.loud else torch.zeros_like(found)


class SilentTiles(Tiles):
    loud = False


class Embeddings(nn.Module):
    """A client that sends the embedding of every word, or, if it is silent, nothing."""

    def __init__(self, loud: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.loud = loud

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.words(x)
        return found if self.loud else torch.zeros_like(found)


class Columns(nn.Module):
    """A client that sends an embedding of every field: of a category its own, of a number its multiple."""

    def __init__(self, loud: bool = True) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(field.categories, 8) if field.categories else nn.Linear(1, 8) for field in FIELDS
        )
        self.loud = loud

    def forward(self, x: Tensor) -> Tensor:
        parts = [
            table(column.long()) if isinstance(table, nn.Embedding) else table(column[:, None])
            for table, column in zip(self.tables, x.unbind(1), strict=True)
        ]
        found = torch.stack(parts, 1)
        return found if self.loud else torch.zeros_like(found)


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


def smooth(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Few waves across the image: what is next to a patch can be told from its borders, unlike on a noisy ground."""
    return pictures(count, seed), torch.arange(count) % CLASSES


def texts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Words in any order, the commonest twice as often as the others."""
    draws = generator(seed, "texts")
    x = torch.randint(-1, WORDS, (count, LENGTH), generator=draws).clamp_min(0)
    return x, x[:, 0] % CLASSES


def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Numbers are standard normal, categories any."""
    draws = generator(seed, "rows")
    x = torch.stack(
        [
            torch.randint(field.categories, (count,), generator=draws).float()
            if field.categories
            else torch.randn(count, generator=draws)
            for field in FIELDS
        ],
        1,
    )
    return x, x[:, 1].long() % CLASSES


SAMPLES = {"image": images, "text": texts, "tabular": rows}
PLAIN = {"image": Identity, "text": Embeddings, "tabular": Columns}  # clients that hide nothing
SILENT = {"image": Silence, "text": lambda: Embeddings(loud=False), "tabular": lambda: Columns(loud=False)}


@dataclass(frozen=True)
class Scene:
    view: View
    truth: Tensor
    client: nn.Module
    y: Tensor  # the targets' labels, whether they are granted or not
    members: Tensor  # (N,): which of the targets the server was trained on
    messages: Sequence[Message] = ()  # what an online attack would hear during training

    def true(self, goal: str = "inputs") -> Truth:
        values = {"inputs": self.truth, "labels": self.y, "attributes": self.y, "membership": self.members}[goal]
        return Truth(values, modality=self.view.modality, fields=self.view.fields)


@contextmanager
def scene(
    make: Callable[[], nn.Module],
    threat: ThreatModel | None = None,
    targets: int = 16,
    modality: str = "image",
    disguise: Sends = lambda z: z,
) -> Iterator[Scene]:
    """A view of a client, and the truth that it does not hold. `disguise` is done to all that the client sends."""
    threat = threat or EVERYTHING
    samples = smooth if make in (Tiles, SilentTiles) else SAMPLES[modality]
    truth, y = samples(targets, 1)
    x, labels = samples(PUBLIC, 2)
    members = torch.arange(targets) % 2
    with seeded(0, "client"):
        client = make().eval().requires_grad_(False)
        server = _server(client, truth[members == 1], y[members == 1])

    def sends(x: Tensor) -> Tensor:
        return torch.stack([disguise(client(x)).clone() for _ in range(threat.rounds)])

    sent = sends(truth)
    with Query.open(sends, threat.queries) as query:
        yield Scene(
            View(
                threat=threat,
                targets=sent,
                shape=tuple(truth.shape[1:]),
                classes=CLASSES,
                stages=[server],
                modality=modality,
                fields=FIELDS if modality == "tabular" else (),
                layout=_layout(modality, tuple(sent.shape[2:])),
                labels=y if threat.labels else None,
                template=make if threat.architecture else None,
                client=(lambda: copy.deepcopy(client)) if threat.weights else None,
                auxiliary=Auxiliary(x[: threat.auxiliary], labels[: threat.auxiliary]) if threat.auxiliary else None,
                candidates=Auxiliary(truth, y),
                query=query if threat.queries else None,
            ),
            truth,
            client,
            y,
            members,
            [_message(step, disguise(client(samples(32, 3 + step)[0]))) for step in range(16)],
        )


def _layout(modality: str, smashed: tuple[int, ...]) -> Layout:
    if modality == "image":
        return on_grid(smashed, (4, 4))
    return Layout("fields", smashed) if modality == "tabular" and len(smashed) == 2 else by_rank(smashed)


def _server(client: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    """A linear layer that answers its training samples right and, there being few of them, knows them by heart."""
    z = client(x).flatten(1)
    linear = nn.Linear(z.shape[1], CLASSES, bias=False)
    wanted = 4.0 * nn.functional.one_hot(y, CLASSES)
    linear.weight.data = (torch.linalg.pinv(z.double()) @ wanted.double()).T.float()
    return nn.Sequential(nn.Flatten(), linear).eval().requires_grad_(False)


def hijacked(attack: ActiveAttack, made: Scene, draws: Generator, steps: int = 60) -> Scene:
    """The scene after its client was trained by what the attack sends it."""
    client = copy.deepcopy(made.client).requires_grad_(True).train()
    attack.begin(replace(made.view, targets=made.view.targets[:, :0]), draws)
    parameters = list(client.parameters())
    optimizer = torch.optim.Adam(parameters or [nn.Parameter(torch.zeros(0))], 1e-2)
    for step in range(steps):
        z = client(images(32, 3 + step)[0])
        smashed = _message(step, z.detach())
        attack.hear(smashed)
        sent = attack.tamper(smashed.reply("gradient", torch.zeros_like(z))).tensor
        if parameters:
            optimizer.zero_grad()
            z.backward(sent)
            optimizer.step()
    with torch.no_grad():
        return replace(made, view=replace(made.view, targets=client.eval()(made.truth).clone()[None]), client=client)


def _message(step: int, z: Tensor) -> Message:
    return Message(CLIENT, SERVER, "smashed", z, step=step, answer=True)
