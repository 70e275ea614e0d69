from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Gt, Lt
from torch import Generator, Tensor

from splitbench.core.member import Batch
from splitbench.defenses._shuffling.imagined import Orders
from splitbench.defenses._shuffling.tokens import Shuffling, places
from splitbench.methods.shuffling.orders import share_kept, within_images


@dataclass(frozen=True)
class BatchShuffle(Shuffling):
    """Keep some tokens of each image, deal the others out to all images of the batch, and shuffle each image.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, algorithm 2 (BS).
    https://github.com/dixiyao/PatchShuffling
    Row j keeps floor(k N) of its N tokens and the label of image j: labels are not mixed. Cut after the first block
    the client has the paper's layers, and that frozen block sees the mixed rows. `last_shuffle` is the text's and the
    public code's; algorithm 2 as printed has none, so that kept tokens come first and are given away.
    """

    joint: ClassVar[bool] = True

    k: Annotated[float, Gt(0), Lt(1)] = 0.4  # share of an image's tokens that stay with it; 0.75 on CIFAR-10
    last_shuffle: bool = True  # shuffle each image once more at the end; false: algorithm 2 as printed
    inference: Literal["mixed", "alone"] = "mixed"  # test images are mixed too, or each is shuffled by itself

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        if self.context.layout is None:
            return batch
        count, tokens = len(batch), places(self.context, self.called)
        # A single image, the remainder of an epoch, has nobody to be mixed with.
        if count == 1 or (not batch.learning and self.inference == "alone"):
            return replace(batch, order=within_images(count, tokens, generator))
        order = self.orders(count, tokens, generator)
        return replace(batch, order=order, about=batch.about.led(self._shares(order, tokens)))

    @property
    def orders(self) -> Orders:
        return functools.partial(share_kept, self.k, self.last_shuffle)

    def _shares(self, order: Tensor, tokens: int) -> Tensor:
        """(N, N): of each row's tokens, how many are of each image."""
        images = order // tokens
        counts = torch.zeros(len(order), len(order)).scatter_add_(1, images, torch.ones(order.shape))
        return counts / tokens
