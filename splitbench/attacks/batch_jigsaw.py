"""Jigsaw puzzles of a whole batch whose pieces were mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor

from splitbench.attacks._jigsaw.board import Board, placed, unfolded
from splitbench.attacks._jigsaw.examples import examples
from splitbench.attacks._jigsaw.learning import Course, trained
from splitbench.attacks._jigsaw.recovering import Blind, Patches, lacking, recovered
from splitbench.attacks._jigsaw.slots import Slots, slot_mistakes
from splitbench.attacks._jigsaw.solving import Solver, unmixed
from splitbench.core.attack import Attack
from splitbench.core.progress import tell
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View
from splitbench.methods.shuffling.orders import across_batch

_ROWS, _TOKENS = 16, 512  # of a batch in training: as many rows as are sent, up to these


@dataclass(frozen=True)
class BatchJigsaw(Attack):
    """Recover the patches of a batch that were mixed among its images, and find for each its image and its place.

    Beyond Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022
    (https://github.com/dixiyao/PatchShuffling), algorithm 2, from one round. A network looks at each row and says
    of each patch which row and place it is likely to belong to and which others are its neighbours; graduated
    assignment (Gold and Rangarajan, TPAMI 1996) puts all patches of the batch into slots. Merging by borders
    (Gallagher, CVPR 2012) does so without training: pieces grow in the whole batch, and are their rows' by majority.
    Each image takes the better answer, by the network's likelihood and the borders.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)  # and queries, or weights: see `lacks`
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"ssim": {"*": 0.5}})
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    solver: Solver = "best"  # the better of both; or the network alone; or merging alone, which needs no training
    blind: Blind = "auto"  # yes: the order of its own queries is not known to it; auto: unless weights are granted
    kept: Annotated[float, Ge(0), Le(1)] = 0.4  # share of a row's own tokens that it assumes to have stayed
    steps: Annotated[int, Ge(0)] = 500  # of training the network
    batch: Annotated[int, Ge(1)] = 64  # images per step, in whole batches of rows
    lr: Annotated[float, Gt(0)] = 2e-3  # of AdamW, at the top of one cycle
    width: Annotated[int, Ge(4)] = 128  # of a patch in the network; a multiple of 4
    blocks: Annotated[int, Ge(0)] = 2  # of attention among the patches of a row

    def lacks(self, threat: ThreatModel) -> str | None:
        return lacking(threat, self.blind)

    def run(self, view: View, generator: Generator) -> Recovered:
        found = recovered(view, self.blind, generator, "batch_jigsaw")
        # Where nothing is shuffled the order received is the true one, which ties in a solver would give away.
        keys = torch.rand(found.targets.shape[:2], generator=generator)
        mixed = placed(found.targets, keys.argsort(1).to(found.targets.device))
        network = self._network(view, found, generator) if self.solver != "merging" else None
        batches = torch.split(mixed, view.batch)
        shown = []
        for number, rows in enumerate(batches):
            shown.append(unmixed(rows, found.board, network, self.solver))
            tell("batch_jigsaw: batches", number + 1, len(batches))
        return Recovered(inputs=found.board.images(torch.cat(shown)))

    def _network(self, view: View, found: Patches, generator: Generator) -> Slots:
        assert view.auxiliary is not None
        board, x = found.board, view.auxiliary.x
        with seeded(int(torch.randint(2**62, (), generator=generator)), "batch_jigsaw"):
            network = Slots(board, self.width, self.blocks).to(x.device)
        rows = max(1, min(view.batch, _ROWS, _TOKENS // board.places, len(x)))

        def loss(images: Tensor) -> Tensor:
            patches, slots = self._dealt(examples(images, board, found.loss, generator), rows, board, generator)
            return slot_mistakes(network(patches), slots, board)

        whole = max(1, self.batch // rows) * rows
        trained(network, x, Course(self.steps, min(whole, len(x)), self.lr), loss, generator, "batch_jigsaw")
        return network

    def _dealt(self, patches: Tensor, rows: int, board: Board, generator: Generator) -> tuple[Tensor, Tensor]:
        """Images as the client would mix them: patches (G, B, L, P), and the slot (G, B * L) that each came from."""
        patches = unfolded(patches[: len(patches) // rows * rows], 0, (-1, rows)).flatten(1, 2)
        kept = math.floor(self.kept * board.places)
        orders = [across_batch(rows, board.places, kept, generator).flatten() for _ in range(len(patches))]
        slots = torch.stack(orders).to(patches.device)
        return unfolded(placed(patches, slots), 1, (rows, -1)), slots
