"""Attending a training to keep what was sent last."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Generator, Tensor

from splitbench.core.attack import OnlineAttack
from splitbench.core.errors import CellError
from splitbench.core.message import Message
from splitbench.core.view import View


@dataclass
class Heard:
    smashed: Tensor
    step: int
    labels: Tensor | None = None


@dataclass
class Listening(OnlineAttack):
    """Keeps the last smashed data of the client whose targets are to be recovered, with their labels if sent."""

    recalls: ClassVar[int | None] = 2048  # samples: enough for a critic, few enough for a laptop

    heard: deque[Heard] = field(default_factory=deque, init=False)

    def begin(self, view: View, generator: Generator) -> None:
        self.heard.clear()

    def hear(self, message: Message) -> None:
        if message.receiver.role != "server" or message.sender.index != 0:
            return
        if message.kind == "smashed":
            self.heard.append(Heard(message.tensor.detach(), message.step))
            assert self.recalls is not None
            while sum(len(each.smashed) for each in self.heard) - len(self.heard[0].smashed) >= self.recalls:
                self.heard.popleft()
        elif message.kind == "label" and self.heard and self.heard[-1].step == message.step:
            self.heard[-1].labels = message.tensor.detach()

    @property
    def earlier(self) -> Tensor | None:
        return torch.cat([each.smashed for each in self.heard]) if self.heard else None

    def observed(self, view: View) -> Tensor:
        """What was kept and the targets themselves: real smashed data, whatever the images."""
        pool = torch.cat([*(each.smashed for each in self.heard), view.merged])
        if not bool(pool.isfinite().all()):
            raise CellError(
                f"{type(self).__name__}: the smashed data are not finite, so there is nothing to learn from"
            )
        return pool

    def labels(self, view: View) -> Tensor | None:
        """The labels of what is observed, where all of them are known."""
        kept = [each.labels for each in self.heard]
        known = [labels for labels in (*kept, view.labels) if labels is not None]
        return torch.cat(known) if len(known) == len(kept) + 1 else None
