"""Attacks that tests bring along, as a user would: a file with classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.message import Message
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


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
        assert message.about is None
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
        return Recovered(torch.full((len(view), *view.shape), 0.5))


@dataclass
class Vandal(ActiveAttack):
    """Sends the client noise instead of gradients."""

    def tamper(self, honest: Message) -> Message:
        return replace(honest, tensor=torch.randn_like(honest.tensor)) if honest.kind == "gradient" else honest

    def run(self, view: View, generator: Generator) -> Recovered:
        return Recovered(torch.zeros(len(view), *view.shape))


@dataclass
class Scavenger(Attack):
    """Looks for images of the right shape anywhere in its view and returns the first."""

    def run(self, view: View, generator: Generator) -> Recovered:
        found: list[Tensor] = []
        self._search(view, found, set())
        images = torch.cat(found or [torch.zeros(1, *view.shape)])
        return Recovered(images[torch.arange(len(view)) % len(images)])

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


@dataclass
class Glance(Attack):
    """Takes the mean of the maps of each target for its image."""

    needs: ClassVar[ThreatModel] = ThreatModel(party="any")

    def run(self, view: View, generator: Generator) -> Recovered:
        return Recovered(glanced(view.merged))


def glanced(z: Tensor) -> Tensor:
    return z.mean(1, keepdim=True).sigmoid()


@dataclass
class BetweenRounds(Attack):
    """Its guess is how far the second round lies from the first, and the second answer from the first."""

    needs: ClassVar[ThreatModel] = ThreatModel(rounds=2, queries=1, auxiliary=1)

    def run(self, view: View, generator: Generator) -> Recovered:
        first, second = view.targets
        assert [len(view.messages), len(view.targets)] == [2, 2]
        assert view.query is not None
        assert view.auxiliary is not None
        answers = view.query(view.auxiliary.x[:1])
        assert len(answers) == 2
        apart = (second - first).abs().mean(), (answers[1] - answers[0]).abs().mean()
        return Recovered(torch.full((len(view), *view.shape), float(min(apart))))


@dataclass
class ClassGradient(Attack):
    """The label whose samples were answered with the most similar gradients in the training."""

    goal: ClassVar[str] = "labels"
    needs: ClassVar[ThreatModel] = ThreatModel(party="client", transcript=True)
    bars: ClassVar[dict[str, dict[str, float]]] = {"accuracy": {"*": 0.5}}

    def run(self, view: View, generator: Generator) -> Recovered:
        assert all(m.kind == "gradient" for round_ in view.messages for m in round_)
        assert {str(m.receiver) for m in view.heard if m.kind == "gradient"} == {view.threat.party}
        labels = torch.cat([m.tensor for m in view.heard if m.kind == "label"])
        known = torch.cat([m.tensor for m in view.heard if m.kind == "gradient"]).flatten(1)
        known = nn.functional.normalize(known)
        means = torch.stack([known[labels == y].sum(0) for y in range(view.classes)])
        likeness = nn.functional.normalize(view.merged.flatten(1)) @ nn.functional.normalize(means).T
        return Recovered(labels=likeness)


@dataclass
class ClassGradientOfTraining(ClassGradient):
    """The same for the last samples of the training."""

    aims: ClassVar[Any] = "training"


@dataclass
class HopelessLabels(ClassGradient):
    """The same with a bar that nothing reaches."""

    bars: ClassVar[dict[str, dict[str, float]]] = {"accuracy": {"*": 1.1}}


@dataclass
class LossOfCandidate(Attack):
    """A candidate that the server's layers answer well is called a member."""

    goal: ClassVar[str] = "membership"
    needs: ClassVar[ThreatModel] = ThreatModel(labels=True)
    bars: ClassVar[dict[str, dict[str, float]]] = {"auc": {"*": 0.55}}

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.candidates is not None
        assert view.labels is not None
        assert torch.equal(view.labels, view.candidates.y)  # targets are sent in the order of the candidates
        losses = nn.functional.cross_entropy(view.stages[0](view.merged), view.labels, reduction="none")
        return Recovered(membership=-losses)


@dataclass
class HopelessMembership(LossOfCandidate):
    """The same with a bar that nothing reaches."""

    bars: ClassVar[dict[str, dict[str, float]]] = {"auc": {"*": 1.1}}


@dataclass
class LabelsOfTargets(Attack):
    """Returns the granted labels, as images of one grey."""

    needs: ClassVar[ThreatModel] = ThreatModel(labels=True)
    aims: ClassVar[Any] = "training"

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.labels is not None
        return Recovered((view.labels.float() / 10).view(-1, 1, 1, 1).expand(len(view), *view.shape))
