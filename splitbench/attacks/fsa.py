"""FSA: translate the client's features into those of an encoder of the adversary's own, whose decoder it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.aligned import Aligned
from splitbench.attacks._alignment.autoencoder import autoencode
from splitbench.attacks._alignment.critic import Critic, Norm, wasserstein
from splitbench.attacks._alignment.matching import settled, smashed_by
from splitbench.attacks._alignment.substitute import Substitute, rectified
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.training import Pairs, Wanted, blurring, decoded, trained_decoder
from splitbench.attacks._steps.descent import descend, draw, some
from splitbench.core.layout import by_rank
from splitbench.core.progress import steps
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass
class FSA(Aligned):
    """Sniff features: an autoencoder of public images, and a CycleGAN between its features and the client's.

    Luo et al., "Feature Sniffer: A Stealthy Inference Attacks Framework on Split Learning", ICANN 2023.
    https://github.com/Rostar-github/FSA
    Departs from the paper: the generator towards the client's features begins where their moments match the targets',
    the one back as its inverse; the decoder learns from public features that went there and back. The paper's schedule
    is 50 epochs of either phase at batch 256 with `warm: 0, penalty: 50`.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=2)
    phases: ClassVar[tuple[str, ...]] = ("encoder_steps", "warm", "steps", "decoder_steps")

    steps: Annotated[int, Ge(0)] = 100  # of the CycleGAN
    # What matching misses is missed twice, there and back: the last third gains .045 on Fashion-MNIST, undefended.
    warm: Annotated[int, Ge(0)] = 900  # steps of matching moments before; the paper has none
    features: Annotated[int, Ge(1)] = 64  # channels of the adversary's encoder; 32 in the paper's code
    encoder_steps: Annotated[int, Ge(0)] = 100  # of training the autoencoder
    encoder_lr: Annotated[float, Gt(0)] = 3e-3  # of the autoencoder; 2e-4 in the paper's code
    lr: Annotated[float, Gt(0)] = 1e-4  # of generators and critics
    penalty: Annotated[float, Ge(0)] = 10.0  # weight of the critics' slopes; 50 in the paper's code
    norm: Norm = "flat"  # of the critics' slopes: over all features, or over the places of each channel
    cycle: Annotated[float, Ge(0)] = 10.0  # weight of coming back to where one started

    @property
    def iterations(self) -> int:
        return super().iterations + 2 * (self.warm // 3)  # of the generator there and of the one back

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.auxiliary is not None
        x, observed = view.auxiliary.x, self.observed(view)
        theirs = Grid.of_view(view)
        ours = Grid(self.features, theirs.height, theirs.width, shape=(self.features, theirs.height, theirs.width))
        with seeded(int(torch.randint(2**62, (), generator=generator)), "fsa"):
            encoder = Substitute(ours, view.shape, rectified(observed)).to(x.device)
            autoencode(encoder, ours, x, self.encoder_steps, self.batch, self.encoder_lr, generator, "autoencoder")
            there = _Generator(ours, theirs, 1, rectified(observed)).to(x.device)
            back = _Generator(theirs, ours, 3, rectified(observed)).to(x.device)
            self.like(nn.Sequential(encoder, there), self.substitute(view, observed, generator), view, generator)
            features = smashed_by(encoder, x)
            pairs = Pairs(smashed_by(there, features), x, None, lambda z: view.imagine(z, generator), theirs)
            noise = self.fitting(pairs, nn.Sequential(encoder, there), view.merged)
            self._invert(pairs, back, features, noise, generator)
            self._sniff(there, back, features, observed, view, generator)
            theirs_again = smashed_by(settled(there, features), features)
            settled(back, pairs.through(theirs_again))
            return self._decode(theirs_again, back, noise, view, generator)

    def _invert(self, pairs: Pairs, back: nn.Module, features: Tensor, noise: float, generator: Generator) -> None:
        """Half of the cycle by itself: from our features to theirs, blurred for what is wrong with them, and back."""
        optimizer = torch.optim.Adam(back.parameters(), self.warm_lr)
        blurred = blurring(pairs.through(pairs.z), noise)
        back.train()
        for _ in (bar := steps("way back", self.warm // 3)):
            rows = some(features, self.batch, generator)
            loss = F.l1_loss(back(blurred(pairs.through(pairs.z[rows]))), features[rows])
            descend(optimizer, loss)
            bar.saw("error", loss)

    def _sniff(
        self,
        there: nn.Module,
        back: nn.Module,
        features: Tensor,
        observed: Tensor,
        view: View,
        generator: Generator,
    ) -> None:
        """The CycleGAN."""
        critics = [
            Critic(grid, self.critic_width, self.critic_blocks).to(features.device)
            for grid in (Grid.of_view(view), Grid.of(by_rank(features.shape[1:])))
        ]
        beta = (0.5, 0.999)
        on_generators = torch.optim.Adam([*there.parameters(), *back.parameters()], self.lr, betas=beta)
        on_critics = torch.optim.Adam([p for c in critics for p in c.parameters()], self.lr, betas=beta)
        there.train()
        back.train()
        for _ in (bar := steps("fsa", self.steps)):
            theirs, ours = draw(observed, self.batch, generator), draw(features, self.batch, generator)
            made_theirs, made_ours = view.imagine(there(ours), generator), back(theirs)
            circles = F.l1_loss(there(made_ours), theirs) + F.l1_loss(back(made_theirs), ours)
            loss = critics[0](made_theirs).mean() + critics[1](made_ours).mean() + self.cycle * circles
            descend(on_generators, loss)
            bar.saw("loss", loss)
            sides = ((critics[0], theirs, made_theirs), (critics[1], ours, made_ours))
            judged = [wasserstein(c, r, m.detach(), self.penalty, self.norm, generator) for c, r, m in sides]
            descend(on_critics, judged[0] + judged[1])

    def _decode(self, theirs: Tensor, back: nn.Module, noise: float, view: View, generator: Generator) -> Recovered:
        assert view.auxiliary is not None
        blurred = blurring(view.imagine(theirs, generator), noise)

        @torch.no_grad()
        def returned(z: Tensor) -> Tensor:
            return smashed_by(back, blurred(view.imagine(z, generator)))

        targets = smashed_by(back, view.merged)
        pairs = Pairs(theirs, view.auxiliary.x, through=returned)
        how = self.training(0.0)  # they were blurred on the way
        decoder = trained_decoder(pairs, how, generator, "decoder", Wanted(targets))
        return Recovered(inputs=decoded(decoder, targets))


class _Generator(nn.Module):
    """From features of one kind to those of another: what is linear in it, and a correction."""

    def __init__(self, source: Grid, goal: Grid, kernel: int, ends: bool) -> None:
        super().__init__()
        self.source, self.goal = source, goal
        width = max(source.channels, goal.channels)
        self.linear = nn.Conv2d(source.channels, goal.channels, kernel, padding=kernel // 2)
        self.change = nn.Sequential(
            nn.Conv2d(source.channels, width, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, goal.channels, 1),
        )
        self.last = nn.ReLU() if ends else nn.Identity()

    def forward(self, z: Tensor) -> Tensor:
        maps = self.source.maps(z)
        return self.goal.smashed(self.last(self.linear(maps) + self.change(maps)))
