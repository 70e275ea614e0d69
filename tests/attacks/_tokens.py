"""A vision transformer's first layers, random and frozen, on images that have something in every patch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from splitbench.attacks._token_decoder.network import Block
from splitbench.core.layout import Layout
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View

SIDE, PATCH = 16, 4
PLACES = (SIDE // PATCH) ** 2
WIDTH = 64
GRANTED = ThreatModel(architecture=True, weights=True, auxiliary=10**6, queries=10**6)


class Edge(nn.Module):
    """A patch embedding, a class token in front, and one block; positions only if asked for."""

    def __init__(self, positions: bool = True, patch: int = PATCH, width: int = WIDTH, side: int = SIDE) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.5 * positions * torch.randn(1, 1 + (side // patch) ** 2, width))
        self.block = Block(width, 2, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        z: Tensor = self.block(torch.cat((self.token.expand(len(x), -1, -1), patches), 1) + self.positions)
        return z


def edge(positions: bool = True) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Edge(positions).eval().requires_grad_(False)


def pictures(count: int, seed: int, side: int = SIDE) -> Tensor:
    """Smooth colours: few waves across the image, so that patches differ and neighbours go together."""
    draws = generator(seed, "pictures")
    waves = torch.randn(count, 3, 4, 4, generator=draws)
    smooth = nn.functional.interpolate(waves, (side, side), mode="bicubic", align_corners=True)
    return (0.5 + 0.2 * smooth).clamp(0, 1)


def tokens_view(
    client: nn.Module, truth: Tensor, public: Tensor, sent: Tensor | None = None, threat: ThreatModel = GRANTED
) -> View:
    """What the server sees of a client that sends tokens; `sent`, if it is not what the layers make of the truth."""
    with torch.no_grad():
        targets = client(truth) if sent is None else sent
    side = truth.shape[2] // PATCH
    return replace(
        View(
            threat=threat,
            targets=targets[None],
            shape=tuple(truth.shape[1:]),
            classes=2,
            stages=[],
            layout=Layout("tokens", tuple(targets.shape[1:]), 1, (side, truth.shape[3] // PATCH)),
            auxiliary=Auxiliary(public, torch.zeros(len(public), dtype=torch.long)),
            client=lambda: client,
        ),
        query=Query(lambda x: client(x).detach()[None], len(public)),  # type: ignore[arg-type]
    )
