"""The black-box attack of the patch shuffling paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator

from splitbench.attacks._steps.descent import draw
from splitbench.attacks._token_decoder.network import TokenDecoder
from splitbench.attacks._token_decoder.places import Places
from splitbench.attacks._token_decoder.training import How, decoded, fitted
from splitbench.core.attack import Attack
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class MAEDecoder(Attack):
    """Train a transformer decoder from smashed data to images, on pairs asked of the client.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, equation 3 and
    section V-B.1: the decoder of He et al., "Masked Autoencoders Are Scalable Vision Learners", 2022
    (https://arxiv.org/abs/2111.06377), with a position embedding at its head and Tanh at its end.
    Departs from the paper: trained on public images, from random weights, small and at a larger rate; the smashed data
    are standardised, and the network is taken as it was when it did best on pairs kept aside. The paper's attacker,
    pretrained on ImageNet, has width 512, 8 blocks, 16 heads, ratio 4 and lr 1.5e-5; it learns for 50 epochs from the
    private training set.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, queries=1)
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"ssim": {"celeba": 0.6, "lfw": 0.6, "*": 0.5}}
    )
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[int, Ge(0)] = 500  # of training, if no epochs are given
    epochs: Annotated[int, Ge(0)] = 0  # passes over the pairs instead of steps; 50 in the paper; 0: as many as `steps`
    batch: Annotated[int, Ge(1)] = 32  # images a step
    lr: Annotated[float, Gt(0)] = 1e-3  # of AdamW; 1.5e-5 in the paper
    decay: Annotated[float, Ge(0)] = 0.01  # of AdamW's weights
    warm: Annotated[float, Ge(0), Le(1)] = 0.1  # the share of the steps in which the rate rises
    schedule: Literal["cosine", "constant"] = "cosine"  # of the rate after that
    width: Annotated[int, Ge(1)] = 128  # of a token; 512 in a masked autoencoder
    blocks: Annotated[int, Ge(0)] = 3  # of the transformer; 8 in a masked autoencoder
    heads: Annotated[int, Ge(1)] = 4  # of attention; must divide the width; 16 in a masked autoencoder
    ratio: Annotated[float, Gt(0)] = 2.0  # of a block's hidden width to its own; 4 in a masked autoencoder

    def run(self, view: View, generator: Generator) -> Recovered:
        if self.width % self.heads:
            raise SplitbenchError(f"mae_decoder: width={self.width} is not a multiple of heads={self.heads}")
        assert view.auxiliary is not None
        assert view.query is not None
        x = draw(view.auxiliary.x, view.query.left, generator)
        # All at once: where a defense mixes a batch, the client makes the batches.
        z = view.merge(view.query(x))
        if not (z.isfinite().all() and view.merged.isfinite().all()):
            raise CellError("mae_decoder: the smashed data are not finite, so there is nothing to learn from")
        with seeded(int(torch.randint(2**62, (), generator=generator)), "mae_decoder"):
            decoder = TokenDecoder(
                Places.of_view(view), view.shape, self.width, self.blocks, self.heads, self.ratio
            ).to(x.device)
        decoder.standardise(z)
        count = self.steps if not self.epochs else self.epochs * max(1, (len(x) - len(x) // 8) // self.batch)
        how = How(count, self.batch, self.lr, self.decay, self.warm, self.schedule)
        return Recovered(inputs=decoded(fitted(decoder, z, x, how, generator, view.merged), view.merged))
