"""FSHA: a malicious server trains the client to smash images as its own pilot does."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.aligned import Aligned
from splitbench.attacks._alignment.autoencoder import autoencode
from splitbench.attacks._alignment.critic import Critic, Norm, wasserstein
from splitbench.attacks._alignment.matching import Matching, matched, smashed_by
from splitbench.attacks._alignment.moments import PLACES_TO_CHOOSE, Moments
from splitbench.attacks._alignment.substitute import Substitute
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._steps.descent import descend, draw
from splitbench.core.attack import ActiveAttack
from splitbench.core.message import Message
from splitbench.core.party import Party
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View

EVERY = 2  # of the samples sent, whose covariance is drawn to the pilot's: all of them would take as long as the critic


@dataclass
class Hijack:
    """What the server brings up against the client."""

    pilot: nn.Module
    critic: Critic
    optimizer: torch.optim.Optimizer
    public: Tensor  # the pilot's features of the public images, before the defense it imagines
    wanted: Moments


@dataclass
class FSHA(Aligned, ActiveAttack):
    """Send the client, instead of its gradient, that of a critic which tells its features from a pilot's.

    Pasquini, Ateniese and Bernaschi, "Unleashing the Tiger: Inference Attacks on Split Learning", CCS 2021.
    https://arxiv.org/abs/2012.02670
    The pilot is linear, as in the authors' later code; the task is not trained. Steps are those of the run.
    Departs from the paper: the pilot is trained before the first step and then rests, so that the client does not chase
    it; the gradient also draws the moments of the client's features to the pilot's (the paper: `moments: 0`); in the
    end the pilot comes the rest of the way to the client (`meet: 0`); the decoder corrects a linear inverse and is
    trained last. The paper's critic is `critic_width: 256, critic_blocks: 6, penalty: 500, norm: per_channel`.
    """

    # 2: the covariance of some of the samples; 3: each client is sent the gradient of its own features
    version: ClassVar[int | str] = 3
    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=2, tampers=True)
    phases: ClassVar[tuple[str, ...]] = ("meet", "decoder_steps")

    steps: Annotated[int, Ge(1)] = 1  # of the critic for each of the client's
    warm: Annotated[int, Ge(0)] = 200  # steps of training the pilot before the client's first
    warm_lr: Annotated[float, Gt(0)] = 3e-3  # of the pilot
    moments: Annotated[float, Ge(0)] = 1.0  # weight of matching the pilot's moments beside the critic; 0 in the paper
    meet: Annotated[int, Ge(0)] = 300  # steps of matching the pilot's moments with the targets' when training is over
    meet_lr: Annotated[float, Gt(0)] = 3e-3  # of the pilot then
    critic_lr: Annotated[float, Gt(0)] = 1e-4  # of the critic
    penalty: Annotated[float, Ge(0)] = 10.0  # weight of the critic's slope; 500 in the paper
    norm: Norm = "flat"  # of the critic's slope: over all features, or over the places of each channel

    view: View | None = field(default=None, init=False, repr=False)
    generator: Generator | None = field(default=None, init=False, repr=False)
    hijack: Hijack | None = field(default=None, init=False, repr=False)
    waiting: dict[Party, deque[Message]] = field(default_factory=dict, init=False, repr=False)
    """What each party sent in this step and has had no gradient for; a mixer may send several messages."""

    def begin(self, view: View, generator: Generator) -> None:
        super().begin(view, generator)
        self.view, self.generator, self.hijack = view, generator, None
        self.waiting.clear()

    def hear(self, message: Message) -> None:
        super().hear(message)
        if message.kind == "smashed" and message.cut == 0:
            earlier = self.waiting.get(message.sender, ())
            self.waiting[message.sender] = deque([*(m for m in earlier if m.step == message.step), message])

    def tamper(self, honest: Message) -> Message:
        """The gradient of the server's own aim, at what the receiver of this very gradient has just sent."""
        if honest.kind != "gradient" or honest.cut != 0 or not self.waiting.get(honest.receiver):
            return honest
        just_sent = self.waiting[honest.receiver].popleft().tensor.detach()
        assert self.generator is not None
        assert self.view is not None
        if self.hijack is None:
            with seeded(int(torch.randint(2**62, (), generator=self.generator)), "hijack"):
                self.hijack = self._prepare(self.view, just_sent, self.generator)
        against = self.hijack
        sent = just_sent.requires_grad_()
        aim = against.critic(sent).mean()
        if self.moments:
            aim = aim + self.moments * Moments.of(against.critic.grid.maps(sent), EVERY).apart(against.wanted)
        (gradient,) = torch.autograd.grad(aim, sent)
        for _ in range(self.steps):
            real = self.view.imagine(draw(against.public, self.batch, self.generator), self.generator)
            made = draw(sent.detach(), self.batch, self.generator)
            loss = wasserstein(against.critic, real, made, self.penalty, self.norm, self.generator)
            descend(against.optimizer, loss)
        return replace(honest, tensor=gradient.to(honest.tensor))

    def run(self, view: View, generator: Generator) -> Recovered:
        with seeded(int(torch.randint(2**62, (), generator=generator)), "fsha"):
            observed = self.observed(view)
            against = self.hijack or self._prepare(view, view.merged, generator)
            pilot = self._nearest(against, view, observed, generator)
            matched(pilot, view, Matching(self.meet, self.batch, self.meet_lr), generator, self.earlier)
            return self.decode(view, pilot, generator)

    def _nearest(self, against: Hijack, view: View, observed: Tensor, generator: Generator) -> nn.Module:
        """The pilot, or, where the client did not follow it, a substitute for the client as it is."""
        assert view.auxiliary is not None
        grid, x = against.critic.grid, view.auxiliary.x
        wanted = Moments.of(grid.maps(view.merged))
        choices = [copy.deepcopy(against.pilot).requires_grad_(True), Substitute.of(view, observed)]
        apart = []
        for choice in choices:
            # A substitute's batch norm has seen nothing yet: it is compared as it is in training.
            choice.train(choice is choices[1])
            apart.append(
                Moments.of(grid.maps(view.imagine(smashed_by(choice, x), generator)))
                .apart(wanted, PLACES_TO_CHOOSE)
                .item()
            )
        return choices[apart.index(min(apart))]

    def _prepare(self, view: View, sent: Tensor, generator: Generator) -> Hijack:
        assert view.auxiliary is not None
        grid = Grid.of_view(view)
        x = view.auxiliary.x
        pilot = Substitute.of(view, sent)
        autoencode(pilot, grid, x, self.warm, self.batch, self.warm_lr, generator, "pilot")
        public = smashed_by(pilot, x)
        critic = Critic(grid, self.critic_width, self.critic_blocks).to(x.device)
        wanted = Moments.of(grid.maps(view.imagine(public, generator)))
        return Hijack(pilot, critic, torch.optim.Adam(critic.parameters(), self.critic_lr), public, wanted)
