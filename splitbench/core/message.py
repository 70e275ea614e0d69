"""What passes between parties, and what the runner remembers of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from splitbench.core.party import Party

Kind = Literal["smashed", "gradient", "label", "weights"]


@dataclass(frozen=True)
class About:
    """Which samples each row of a message is about, and how much of each.

    The runner's bookkeeping: it decides what the truth of a message is, and is removed before an adversary sees it.
    """

    samples: Tensor  # (N, K): rows of the data
    owners: Tensor  # (N, K): the client whose samples they are
    shares: Tensor  # (N, K): how much of each, 1 in total; 0 where a row has fewer than K members
    places: Tensor | None = None  # (N, K, rows, columns): the same place by place, where a mixture differs by place
    lead: bool = False  # each row is chiefly about its first member: it has that one's label, and stands for it

    @classmethod
    def plain(cls, client: int, samples: Tensor) -> About:
        """One sample per row."""
        column = samples[:, None]
        return cls(column, column.new_full((1, 1), client).expand_as(column), torch.ones(1, 1).expand(len(samples), 1))

    @classmethod
    def mixture(cls, parts: Sequence[About], shares: Tensor, places: Tensor | None = None) -> About:
        """Row n is made of row n of every part; `shares` are (parts,) or (N, parts) and sum to one."""
        each = shares.expand(len(parts[0]), len(parts)).unbind(1)
        weighted = torch.cat([part.shares * share[:, None] for part, share in zip(parts, each, strict=True)], 1)
        return cls(
            torch.cat([part.samples for part in parts], 1),
            torch.cat([part.owners for part in parts], 1),
            weighted,
            places,
        )

    def mixed(self, weights: Tensor) -> About:
        """Rows made of the rows of this batch: `weights` is (M, N), each row summing to one."""
        if self.samples.shape[1] != 1:
            raise ValueError("rows that are mixtures already cannot be mixed across the batch")
        return About(self.samples.T.expand(len(weights), -1), self.owners.T.expand(len(weights), -1), weights)

    def led(self, weights: Tensor) -> About:
        """Rows made of the rows of this batch, (N, N), the n-th of which stays the n-th sample's."""
        own_first = (torch.arange(len(self))[:, None] + torch.arange(len(self))) % len(self)
        mixed = self.mixed(weights)
        samples, owners, shares = (column.gather(1, own_first) for column in (mixed.samples, mixed.owners, weights))
        return About(samples, owners, shares, lead=True)

    @property
    def mixes(self) -> bool:
        """Whether rows stand for more than one sample."""
        return self.samples.shape[1] > 1 and not self.lead

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, rows: Tensor | slice) -> About:
        places = self.places[rows] if self.places is not None else None
        return About(self.samples[rows], self.owners[rows], self.shares[rows], places, self.lead)

    @classmethod
    def cat(cls, parts: Sequence[About]) -> About:
        """Rows of several messages below each other."""
        width = max(part.samples.shape[1] for part in parts)

        def padded(tensors: Sequence[Tensor]) -> Tensor:
            return torch.cat(
                [torch.cat((t, t.new_zeros(len(t), width - t.shape[1], *t.shape[2:])), 1) for t in tensors]
            )

        places = [part.places for part in parts if part.places is not None]
        whole = padded(places) if len(places) == len(parts) else None
        samples, owners, shares = (
            padded([getattr(part, name) for part in parts]) for name in ("samples", "owners", "shares")
        )
        # A row about a single sample stands for it beside rows that are led, such as those of a batch of one.
        lead = any(part.lead for part in parts) and not any(part.mixes for part in parts)
        return cls(samples, owners, shares, whole, lead)


@dataclass(frozen=True)
class Message:
    """One tensor on its way from one party to another."""

    sender: Party
    receiver: Party
    kind: Kind
    tensor: Tensor
    cut: int = 0
    step: int = 0
    round: int = 0  # the epoch
    share: float = 1.0  # of all data, what the message speaks for; its weight in a loss over several messages
    answer: bool = False  # whether the sender waits for a gradient
    about: About | None = None

    def carrying(self, tensor: Tensor) -> Message:
        return replace(self, tensor=tensor)

    def reply(self, kind: Kind, tensor: Tensor) -> Message:
        """Back to the sender, about the same samples."""
        return replace(self, sender=self.receiver, receiver=self.sender, kind=kind, tensor=tensor, answer=False)

    def seen(self) -> Message:
        """As an adversary sees it."""
        return replace(self, about=None)
