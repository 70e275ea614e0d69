"""FORA: a substitute client, aligned with the real one by what both send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor, nn

from splitbench.attacks._alignment.aligned import Aligned
from splitbench.attacks._alignment.critic import Critic, Norm, wasserstein
from splitbench.attacks._alignment.mmd import mk_mmd
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._steps.descent import descend, draw, shuffled
from splitbench.core.progress import steps
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass
class FORA(Aligned):
    """Train a substitute until a critic cannot tell what it sends from what the client sends, then invert it.

    Xu et al., "A Stealthy Wrongdoer: Feature-Oriented Reconstruction Attack against Split Learning", CVPR 2024.
    https://arxiv.org/abs/2405.04115
    Departs from the paper: the substitute is a convolution over tiles, deeper with `blocks`, and begins where its
    moments match the targets'; the decoder corrects a linear inverse and is trained when the substitute is. The
    paper's schedule is `warm: 0, steps: 40000, penalty: 1000, critic_width: 256, critic_blocks: 6`.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=2)

    alignment: Annotated[float, Ge(0), Le(1)] = 0.8  # share of MK-MMD in the substitute's loss; the critic has the rest
    lr: Annotated[float, Gt(0)] = 1e-4  # of the substitute
    critic_lr: Annotated[float, Gt(0)] = 3e-4  # of the critic
    penalty: Annotated[float, Ge(0)] = 10.0  # weight of the critic's slope; 1000 in the paper's code
    norm: Norm = "flat"  # of the critic's slope: over all features, or over the places of each channel
    critic_width: Annotated[int, Ge(1)] = 64  # channels of the critic; 256 in the paper
    blocks: Annotated[int, Ge(0)] = 0  # residual blocks of the substitute

    def run(self, view: View, generator: Generator) -> Recovered:
        observed = self.observed(view)
        with seeded(int(torch.randint(2**62, (), generator=generator)), "fora"):
            client = self.substitute(view, observed, generator, self.blocks)
            self._align(client, observed, view, generator)
            return self.decode(view, client, generator)

    def _align(self, client: nn.Module, observed: Tensor, view: View, generator: Generator) -> None:
        assert view.auxiliary is not None
        critic = Critic(Grid.of_view(view), self.critic_width, self.critic_blocks).to(observed.device)
        on_client = torch.optim.Adam(client.parameters(), self.lr)
        on_critic = torch.optim.Adam(critic.parameters(), self.critic_lr)
        batches = shuffled(view.auxiliary.x, self.batch, generator)
        client.train()
        for _ in (bar := steps("fora", self.steps)):
            real = draw(observed, self.batch, generator)
            made = view.imagine(client(view.auxiliary.x[next(batches)]), generator)
            score = critic(made).mean()
            descend(on_client, (1 - self.alignment) * score + self.alignment * mk_mmd(real, made))
            bar.saw("critic", score)
            descend(on_critic, wasserstein(critic, real, made.detach(), self.penalty, self.norm, generator))
