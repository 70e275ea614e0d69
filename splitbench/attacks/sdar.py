"""SDAR: a simulator of the client and a decoder, both kept honest by discriminators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.aligned import Aligned
from splitbench.attacks._alignment.critic import Critic, Seen, fooling, judged
from splitbench.attacks._alignment.matching import Matching, Server, matched
from splitbench.attacks._decoding.decoder import Decoder
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.labels import as_numbers
from splitbench.attacks._steps.descent import adam, descend, shuffled, some
from splitbench.core.layout import by_rank
from splitbench.core.progress import steps
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass
class SDAR(Aligned):
    """Simulate the client so that the server's layers can use what it sends and a discriminator cannot tell it apart.

    Zhu et al., "Passive Inference Attacks on Split Learning via Adversarial Regularization", NDSS 2025.
    https://arxiv.org/abs/2310.10483
    Where labels are sent (not in a U), the decoder and both discriminators are told them. Where the server does not
    hold the last layers, a linear one stands for them. Batch norm of the server's layers is in evaluation mode.
    Departs from the paper: the simulator begins where its moments match the targets', and all steps are taken when
    the training is over, on what was sent last; the decoder corrects a linear inverse. The paper's schedule is
    `warm: 0, steps: 20000, decoder_steps: 20000, batch: 128`.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(architecture=True, auxiliary=2)

    warm: Annotated[int, Ge(0)] = 900  # steps of matching moments before; the paper has none
    steps: Annotated[int, Ge(0)] = 60  # of simulator and feature discriminator; 20,000 in the paper
    lr: Annotated[float, Gt(0)] = 1e-3  # of the simulator
    feature_weight: Annotated[float, Ge(0)] = 0.02  # of fooling the feature discriminator
    image_weight: Annotated[float, Ge(0)] = 1e-5  # of fooling the image discriminator
    flip: Annotated[float, Ge(0), Le(0.5)] = 0.0  # how far a discriminator's labels are moved towards each other
    dropout: Annotated[float, Ge(0), Le(1)] = 0.4  # in the discriminators

    @property
    def uses_public_labels(self) -> bool:
        return True

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.template is not None
        assert view.auxiliary is not None
        real, public = self._real(view), self._public(view)
        with seeded(int(torch.randint(2**62, (), generator=generator)), "sdar"):
            how = Matching(self.warm, self.batch, self.warm_lr)
            simulator = matched(view.template().to(view.targets.device), view, how, generator, self.earlier)
            self._simulate(simulator, real, public, view, generator)
            labels = None
            if public[1] is not None and view.labels is not None:
                labels = (public[1], as_numbers(view.labels, view.classes))
            return self.decode(view, simulator, generator, labels, self._regulariser(real, public, view, generator))

    def _real(self, view: View) -> Seen:
        observed, labels = self.observed(view), self.labels(view)
        return observed, as_numbers(labels, view.classes) if labels is not None else None

    def _public(self, view: View) -> Seen:
        """Public images; their labels serve only beside those of the private ones."""
        assert view.auxiliary is not None
        told = self.labels(view) is not None
        return view.auxiliary.x, as_numbers(view.auxiliary.y, view.classes) if told else None

    def _simulate(self, simulator: nn.Module, real: Seen, public: Seen, view: View, generator: Generator) -> None:
        assert view.auxiliary is not None
        critic = self._critic(Grid.of_view(view), public)
        server = Server(view, simulator, public[0][:1])
        on_simulator = adam([*simulator.parameters(), *server.head.parameters()], self.lr)
        on_critic = torch.optim.Adam(critic.parameters(), self.lr * self.feature_weight)
        batches = shuffled(public[0], self.batch, generator)
        simulator.train()
        for _ in (bar := steps("sdar", self.steps)):
            rows = next(batches)
            z = view.imagine(simulator(public[0][rows]), generator)
            made = (z, _rows(public[1], rows))
            loss = server.task(z, view.auxiliary.y[rows]) + self.feature_weight * fooling(critic, made)
            descend(on_simulator, loss)
            bar.saw("loss", loss)
            sent = _drawn(real, self.batch, generator)
            descend(on_critic, judged(critic, sent, (z.detach(), made[1]), self.flip))

    def _regulariser(
        self, real: Seen, public: Seen, view: View, generator: Generator
    ) -> Callable[[Decoder], Tensor] | None:
        """Images decoded from what the client sent must pass for images: their discriminator learns beside."""
        if not self.image_weight:
            return None
        critic = self._critic(Grid.of(by_rank(view.shape)), public)
        on_critic = torch.optim.Adam(critic.parameters(), self.decoder_lr * self.image_weight)
        batches = shuffled(public[0], self.batch // 2, generator)

        def term(decoder: Decoder) -> Tensor:
            z, labels = _drawn(real, self.batch // 2, generator)
            made = decoder(z, labels)
            rows = next(batches)
            images = (public[0][rows], _rows(public[1], rows))
            descend(on_critic, judged(critic, images, (made.detach(), labels), self.flip))
            return self.image_weight * fooling(critic, (made, labels))

        return term

    def _critic(self, grid: Grid, public: Seen) -> Critic:
        labels = public[1].shape[1] if public[1] is not None else 0
        made = Critic(grid, self.critic_width, self.critic_blocks, labels, self.dropout)
        return made.to(public[0].device)


def _rows(labels: Tensor | None, rows: Tensor) -> Tensor | None:
    return labels[rows] if labels is not None else None


def _drawn(pool: Seen, batch: int, generator: Generator) -> Seen:
    rows = some(pool[0], batch, generator)
    return pool[0][rows], _rows(pool[1], rows)
