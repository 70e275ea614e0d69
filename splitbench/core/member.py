"""A party at work: its layers, optimizer, defense, secrets and random numbers. Others reach it by messages alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from splitbench.core.defense import Defense
from splitbench.core.errors import CellError
from splitbench.core.message import About, Message
from splitbench.core.party import SERVER, Party
from splitbench.core.randomness import Streams

Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Batch:
    """One client's share of a step."""

    x: Tensor
    y: Tensor
    about: About
    learning: bool = True  # false: for inference
    order: Tensor | None = None  # (N, L): which of the batch's N * L tokens the layers see in each place

    def __len__(self) -> int:
        return len(self.x)

    @property
    def given(self) -> tuple[Tensor, ...]:
        """What the client's first layers are called with."""
        return (self.x,) if self.order is None else (self.x, self.order)


@dataclass(frozen=True)
class Plan:
    """What everybody knows of a training: who holds how many samples, and how long it goes on."""

    sizes: tuple[int, ...]
    batch: int = 64
    epochs: int = 1
    groups: int = 0  # messages that a mixer makes of theirs; 0: there is no mixer
    weights: int = 0  # tensors that make up a client's layers

    @property
    def clients(self) -> list[Party]:
        return [Party("client", index) for index in range(len(self.sizes))]

    def share(self, party: Party) -> float:
        """Of all data, what a client holds."""
        return self.sizes[party.index] / sum(self.sizes)


class Learner(Protocol):
    """A party's optimizer, with its schedule."""

    def zero_grad(self) -> None: ...
    def step(self) -> None: ...


@dataclass
class Member:
    """What every party has. Without a learner, gradients stay on the parameters and nothing is updated."""

    party: Party
    stages: list[nn.Module]
    defense: Defense = field(default_factory=Defense)
    streams: Streams = field(default_factory=lambda: Streams(0))
    loss: Loss = torch.nn.functional.cross_entropy
    learner: Learner | None = None
    frozen: bool = False  # true: exchanges are taken part in, and nothing is learned from them
    precision: torch.dtype = torch.float32
    epoch: int = 0
    step: int = 0
    losses: list[list[float]] = field(default_factory=list)  # of each epoch, the task losses it computed
    watch: Callable[[float], None] = lambda _: None  # is told every task loss

    @property
    def noise(self) -> Generator:
        """What its defense draws from."""
        return self.streams.of("defense")

    def at_work(self) -> AbstractContextManager[None]:
        return self.streams.layers()

    def epochs(self, plan: Plan) -> Iterator[int]:
        for self.epoch in range(plan.epochs):
            self.losses.append([])
            yield self.epoch

    def forward(self, stage: nn.Module, *given: Tensor) -> Tensor:
        """Through layers of its own; what leaves them is float32 whatever they compute in."""
        if self.precision == torch.float32:
            out: Tensor = stage(*given)
            return out
        with torch.autocast(given[0].device.type, dtype=self.precision):
            return stage(*given).float()  # type: ignore[no-any-return]

    def begin_step(self) -> None:
        if self.learner is not None and not self.frozen:
            self.learner.zero_grad()

    def end_step(self) -> None:
        self.step += 1
        if self.learner is not None and not self.frozen:
            self.learner.step()

    def report(self, value: Tensor) -> float:
        """The task loss of a step, for the record and for whoever watches."""
        loss = value.item()
        if not math.isfinite(loss) and not self.frozen:
            raise CellError(f"the loss became {loss} in epoch {self.epoch + 1}, step {self.step + 1}")
        if self.losses and not self.frozen:
            self.losses[-1].append(loss)
            self.watch(loss)
        return loss


@dataclass
class Upload:
    """What a client sends of a batch, and what it keeps until the gradient comes back."""

    smashed: Message  # its tensor is still in the client's graph
    label: Message  # stays with the client unless the topology sends it
    penalty: Tensor | None


@dataclass
class Client(Member):
    load: Callable[[Tensor], Batch] | None = None  # its own samples, by number
    size: int = 0  # how many it has
    share: float = 1.0  # of all data
    above: Party = SERVER  # to whom its smashed data go: the server, or a mixer before it

    def smash(self, batch: Batch) -> Upload:
        """Forward through the first layers and the defense."""
        self.begin_step()
        batch = self.defense.inputs(batch, self.noise)
        z = self.forward(self.stages[0], *batch.given)
        # A penalty is for learning; what it remembers must not change by taking part without.
        penalty = None if self.frozen or not batch.learning else self.defense.penalty(batch.x, z)
        header = {"step": self.step, "round": self.epoch, "share": self.share, "about": batch.about}
        label = Message(self.party, self.above, "label", batch.y, **header)  # type: ignore[arg-type]
        sent = self.defense.outgoing(Message(self.party, self.above, "smashed", z, **header), self.noise)  # type: ignore[arg-type]
        # A client whose layers are frozen, or whose defense sends something unrelated, has no use for a gradient.
        sent = replace(sent, answer=sent.tensor.requires_grad)
        return Upload(sent, self.defense.outgoing(label, self.noise), penalty)

    def learn(self, upload: Upload, slope: Message | None) -> None:
        """Backward from the gradient that came back, and an update of its first layers."""
        if not self.frozen:
            roots: list[Tensor] = []
            slopes: list[Tensor | None] = []
            if slope is not None:
                roots.append(upload.smashed.tensor)
                slopes.append(self.defense.incoming(slope).tensor)
            if upload.penalty is not None and upload.penalty.requires_grad:
                roots.append(upload.penalty)
                slopes.append(None)
            if roots:
                torch.autograd.backward(roots, slopes)
            for stage in self.stages:
                self.defense.gradients(stage, self.noise)
        self.end_step()


@dataclass
class Server(Member):
    def learn(self, smashed: Sequence[Message], labels: Sequence[Message]) -> list[Tensor | None]:
        """One pass over all that arrived, and an update: the server descends sum_i d_i L_i with d_i the share of a
        message. Returns the gradient of L_i itself for the i-th message, which is what its sender descends."""
        self.begin_step()
        tensors = [message.tensor for message in smashed]
        outputs = self.forward(self.stages[0], tensors[0] if len(tensors) == 1 else torch.cat(tensors))
        parts = torch.split(outputs, [len(z) for z in tensors])
        total = sum(message.share for message in smashed)
        shares = [message.share / total for message in smashed]
        losses = [self.loss(output, label.tensor) for output, label in zip(parts, labels, strict=True)]
        value = torch.stack(losses) @ losses[0].new_tensor(shares)
        if self.frozen:
            slopes: list[Tensor | None] = [*torch.autograd.grad(value, tensors, allow_unused=True)]
        else:
            value.backward()  # type: ignore[no-untyped-call]
            slopes = [z.grad for z in tensors]
        self.report(value)
        self.end_step()
        return [
            slope.div_(share) if slope is not None and share != 1 else slope
            for slope, share in zip(slopes, shares, strict=True)
        ]


@dataclass
class Mixer(Member):
    """A trusted party that mixes what clients sent and divides what comes back. It has no layers."""
