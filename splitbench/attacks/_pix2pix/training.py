"""Generator and critic trained against each other, as pix2pix trains them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._pix2pix.critic import PatchGAN
from splitbench.attacks._pix2pix.generator import UNet
from splitbench.attacks._steps.descent import descend, shuffled
from splitbench.core.progress import show, steps


@dataclass(frozen=True)
class How:
    """Adam for both networks; absolute error and the critic's word for the generator."""

    steps: int
    batch: int
    lr: float
    falling: float  # the last share of the steps, in which the rate falls to nothing
    weight: float  # of absolute error
    adversarial: float  # weight of the critic's word


def trained(
    generator: UNet, critic: PatchGAN, z: Tensor, x: Tensor, how: How, draws: Generator, wanted: Tensor
) -> None:
    """Dropout draws from torch's global generator."""
    mine = torch.optim.Adam(generator.parameters(), how.lr, betas=(0.5, 0.999))
    its = torch.optim.Adam(critic.parameters(), how.lr, betas=(0.5, 0.999))
    begins = how.steps * (1 - how.falling)
    batches = shuffled(x, how.batch, draws)
    generator.train()
    critic.train()
    for step in (bar := steps("pix2pix", how.steps)):
        share = min(1.0, (how.steps - step) / max(1.0, how.steps - begins))
        for optimizer in (mine, its):
            for group in optimizer.param_groups:
                group["lr"] = how.lr * share
        rows = next(batches)
        told, real = z[rows], 2 * x[rows] - 1
        fake = generator(told)
        if how.adversarial:
            # Halved, as the paper does, so that the critic learns more slowly than the generator.
            doubt = (_judged(critic(told, real), True) + _judged(critic(told, fake.detach()), False)) / 2
            descend(its, doubt)
        loss = how.weight * F.l1_loss(fake, real)
        if how.adversarial:
            loss = loss + how.adversarial * _judged(critic(told, fake), True)
        descend(mine, loss)
        bar.saw("loss", loss)
        if step % max(1, how.steps // 8) == 0:
            show(f"step {step + 1}", lambda: generated(generator, wanted))
            generator.train()


def _judged(logits: Tensor, real: bool) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(real)))


@torch.no_grad()
def generated(generator: UNet, z: Tensor) -> Tensor:
    """Images in [0, 1], a batch at a time; dropout goes on, as the paper's noise."""
    generator.eval()
    for layer in generator.modules():
        if isinstance(layer, nn.Dropout):
            layer.train()
    return torch.cat([(generator(part) + 1) / 2 for part in torch.split(z, 128)])
