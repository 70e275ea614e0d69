"""Attacks that tests bring along, as a user would: a file with classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View
from splitbench.core.wire import Message


@dataclass
class Eavesdropper(OnlineAttack):
    """Does everything that might disturb a run: trains through the server's layers, draws, writes into tensors."""

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, architecture=True)

    def begin(self, view: View, generator: Generator) -> None:
        assert view.template is not None
        self.view = view
        self.shadow = view.template()
        self.optimizer = torch.optim.SGD(self.shadow.parameters(), lr=0.1)
        self.heard = 0

    def hear(self, message: Message) -> None:
        self.heard += 1
        assert message.samples is None
        message.tensor.zero_()
        torch.rand(3)
        assert self.view.auxiliary is not None
        stages = [stage.training for stage in self.view.stages]
        for stage in self.view.stages:
            stage.eval()
        z: Tensor = self.shadow(self.view.auxiliary.x[:4])
        gradients = torch.autograd.grad(self.view.stages[0](z).square().mean(), list(self.shadow.parameters()))
        for parameter, gradient in zip(self.shadow.parameters(), gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        for stage, mode in zip(self.view.stages, stages, strict=True):
            stage.train(mode)

    def run(self, view: View, generator: Generator) -> Recovered:
        assert self.heard > 0
        return Recovered(torch.full((len(view.targets), *view.shape), 0.5))


@dataclass
class Vandal(ActiveAttack):
    """Sends the client noise instead of gradients."""

    def tamper(self, honest: Message) -> Message:
        return replace(honest, tensor=torch.randn_like(honest.tensor)) if honest.kind == "gradient" else honest

    def run(self, view: View, generator: Generator) -> Recovered:
        return Recovered(torch.zeros(len(view.targets), *view.shape))


@dataclass
class Scavenger(Attack):
    """Looks for images of the right shape anywhere in its view and returns the first."""

    def run(self, view: View, generator: Generator) -> Recovered:
        found: list[Tensor] = []
        self._search(view, found, set())
        images = torch.cat(found or [torch.zeros(1, *view.shape)])
        return Recovered(images[torch.arange(len(view.targets)) % len(images)])

    def _search(self, thing: Any, found: list[Tensor], seen: set[int]) -> None:
        if id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, Tensor):
            if thing.dim() == 4 and tuple(thing.shape[1:]) == (1, 28, 28):
                found.append(thing.float())
        elif isinstance(thing, list | tuple):
            for one in thing:
                self._search(one, found, seen)
        elif hasattr(thing, "__dict__") and not isinstance(thing, nn.Module | type):
            for one in vars(thing).values():
                self._search(one, found, seen)
