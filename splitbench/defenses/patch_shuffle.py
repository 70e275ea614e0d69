from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Generator

from splitbench.core.member import Batch
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
        return replace(batch, order=within_images(len(batch), places(self.context, self.called), generator))
