from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Generator, Tensor

from splitbench.core.imagined import Imagined
from splitbench.core.member import Batch
from splitbench.core.threat import Knowledge
from splitbench.defenses._shuffling.imagined import Shuffled
from splitbench.defenses._shuffling.tokens import Shuffling, places
from splitbench.methods.shuffling.orders import within_images


@dataclass(frozen=True)
class PatchShuffle(Shuffling):
    """Put each image's tokens in a random order, drawn anew each time; positions are removed, the client is frozen.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, algorithm 1 (PS).
    https://github.com/dixiyao/PatchShuffling
    Cut after the first block (`block1`) the client has the paper's layers: embedding, shuffle, one frozen block. A
    class token keeps its place. Nobody else can put the tokens back, and the server does not need to.
    """

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        if self.context.layout is None:
            return batch
        return replace(batch, order=within_images(len(batch), places(self.context, "patch_shuffle"), generator))

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        if rung == "none" or self.context.layout is None:
            return Imagined()
        return Shuffled(self.context.layout.prefix, self._order)

    def _order(self, count: int, tokens: int, generator: Generator | None) -> Tensor:
        return within_images(count, tokens, generator)
