"""The black-box attack by pix2pix, a conditional GAN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Generator

from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._pix2pix.critic import PatchGAN
from splitbench.attacks._pix2pix.generator import UNet
from splitbench.attacks._pix2pix.laying import Laid
from splitbench.attacks._pix2pix.training import How, generated, trained
from splitbench.attacks._steps.descent import draw
from splitbench.core.attack import Attack
from splitbench.core.errors import CellError
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Pix2Pix(Attack):
    """Translate smashed data, laid out as an image, into the image by a U-Net that is trained against a critic.

    Isola et al., "Image-to-Image Translation with Conditional Adversarial Networks", CVPR 2017, sections 3 and 6:
    a U-Net with dropout as its noise, a critic of 70 x 70 patches that is told the same, 100 times the absolute error.
    https://arxiv.org/abs/1611.07004
    Yao et al., "Patch Shuffling over Transformers", 2022, section V-C.3, takes it for an attack (table IX).
    Departs from the paper: a learned linear layer lays the values of each token over the pixels of its patch, in a
    few channels, since how smashed data become an image is not said; the U-Net is as deep as the image is large;
    batches are normalised by running means when the attack is mounted. The paper's have width 64, batch 1 and 200
    epochs, of which the rate falls in the last 100.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, queries=1)
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"ssim": {"celeba": 0.5, "*": 0.4}})
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[int, Ge(0)] = 250  # of training, if no epochs are given
    epochs: Annotated[int, Ge(0)] = 0  # passes over the pairs instead of steps; 200 in the paper; 0: as many as `steps`
    batch: Annotated[int, Ge(1)] = 16  # images a step; 1 in the paper
    lr: Annotated[float, Gt(0)] = 5e-4  # of both networks; 2e-4 in the paper
    falling: Annotated[float, Ge(0), Le(1)] = 0.5  # the last share of the steps, in which the rate falls to nothing
    width: Annotated[int, Ge(1)] = 32  # of the outermost layer of both networks; 64 in the paper
    channels: Annotated[int, Ge(1)] = 8  # in which smashed data are laid out as an image
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5  # of the generator's innermost layers: its noise
    weight: Annotated[float, Ge(0)] = 100.0  # of absolute error
    adversarial: Annotated[float, Ge(0)] = 1.0  # weight of the critic's word; 0: there is no critic

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.auxiliary is not None
        assert view.query is not None
        x = draw(view.auxiliary.x, view.query.left, generator)
        # All at once: where a defense mixes a batch, the client makes the batches.
        z = view.merge(view.query(x))
        if not (z.isfinite().all() and view.merged.isfinite().all()):
            raise CellError("pix2pix: the smashed data are not finite, so there is nothing to learn from")
        grid, channels = Grid.of_view(view), view.shape[0]
        count = self.steps if not self.epochs else self.epochs * max(1, len(x) // self.batch)
        how = How(count, self.batch, self.lr, self.falling, self.weight, self.adversarial)
        with seeded(int(torch.randint(2**62, (), generator=generator)), "pix2pix"):
            laid = [Laid(grid, view.shape, self.channels) for _ in range(2)]
            for one in laid:
                one.standardise(z)
            maker = UNet(laid[0], channels, self.channels, self.width, self.dropout).to(x.device)
            critic = PatchGAN(laid[1], channels, self.channels, self.width).to(x.device)
            trained(maker, critic, z, x, how, generator, view.merged)
            return Recovered(inputs=generated(maker, view.merged))
