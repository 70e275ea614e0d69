"""Defenses that tests bring along, as a user would: a file with classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.message import About, Message


def blended(message: Message) -> About:
    assert message.about is not None
    return message.about


@dataclass(frozen=True)
class Mixup(Defense):
    """Clients are paired; of each pair the server is sent sums of rows, in shares that are drawn anew.

    The last of an odd number of clients is left out.
    """

    mixes: ClassVar[bool] = True

    def groups(self, clients: int) -> int:
        return clients // 2

    def mix(
        self, smashed: Sequence[Message], labels: Sequence[Message], generator: Generator | None
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        pairs = [slice(at, at + 2) for at in range(0, len(smashed) - 1, 2)]
        made = [self._pair(*smashed[pair], *labels[pair], generator) for pair in pairs]
        return [z for z, _ in made], [y for _, y in made]

    def _pair(
        self, one: Message, other: Message, mine: Message, theirs: Message, generator: Generator | None
    ) -> tuple[Message, Message]:
        weights, places = self.drawn(one.tensor, generator)  # of the first, row by row
        shares = torch.stack((weights, 1 - weights), 1)
        about = About.mixture([blended(one), blended(other)], shares, places)
        of_place = weights.view(-1, 1, 1, 1) if places is None else places[:, :1]
        z = of_place * one.tensor + (1 - of_place) * other.tensor
        hard = [F.one_hot(m.tensor, self.context.classes).float() for m in (mine, theirs)]
        soft = weights[:, None] * hard[0] + (1 - weights[:, None]) * hard[1]
        common = {"share": one.share + other.share, "about": about}
        return replace(one, tensor=z, **common), replace(mine, tensor=soft, **common)  # type: ignore[arg-type]

    def drawn(self, z: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor | None]:
        return torch.rand(len(z), generator=generator), None


@dataclass(frozen=True)
class CutMix(Mixup):
    """Of each pair, the left part of the maps of one and the right part of the other's."""

    def drawn(self, z: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor | None]:
        rows, columns = z.shape[2:]
        ends = torch.randint(1, columns, (len(z), 1, 1, 1), generator=generator)
        left = (torch.arange(columns) < ends).float().expand(-1, 1, rows, -1)
        places = torch.cat((left, 1 - left), 1)
        return left.mean((1, 2, 3)), places


@dataclass(frozen=True)
class Shuffle(Defense):
    """Puts the rows of a batch into another order: the labels stay as they were."""

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if message.kind != "smashed" or message.about is None:
            return message
        order = torch.randperm(len(message.tensor), generator=generator)
        about = message.about.mixed(torch.eye(len(order))[order])
        return replace(message, tensor=message.tensor[order], about=about)


@dataclass(frozen=True)
class Wrapped(Defense):
    """Hides its secret in the client's own layers, as a permutation of channels."""

    def prepare(self, model):  # type: ignore[no-untyped-def]
        draws = torch.Generator().manual_seed(self.context.secret % 2**62)
        model.stages[0].register_buffer("secret", torch.randperm(1000, generator=draws))
        return model
