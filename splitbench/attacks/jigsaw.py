"""The jigsaw puzzle that shuffled patches are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Generator, Tensor

from splitbench.attacks._jigsaw.arranging import Arranger, mistakes
from splitbench.attacks._jigsaw.board import placed
from splitbench.attacks._jigsaw.examples import examples
from splitbench.attacks._jigsaw.learning import Course, trained
from splitbench.attacks._jigsaw.recovering import Blind, Patches, lacking, recovered
from splitbench.attacks._jigsaw.solving import Solver, solved
from splitbench.core.attack import Attack
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Jigsaw(Attack):
    """Recover the patches of each image, as `patch_set` does, and put them where they were.

    Beyond Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022
    (https://github.com/dixiyao/PatchShuffling), section IV-B, which counts the orders that a guess would have to
    try. Two solvers: neighbours merged by their borders, without training (Gallagher, CVPR 2012), and a network that
    learns from public images where a patch belongs and what is beside it, with graduated assignment (Gold and
    Rangarajan, TPAMI 1996). Each image takes the better answer, by the network's likelihood and the borders.
    The order in which tokens arrive is not looked at, whether or not something defends.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)  # and queries, or weights: see `lacks`
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"ssim": {"*": 0.5}})
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    solver: Solver = "best"  # the better of both; or the network alone; or merging alone, which needs no training
    blind: Blind = "auto"  # yes: the order of its own queries is not known to it; auto: unless weights are granted
    steps: Annotated[int, Ge(0)] = 600  # of training the network
    batch: Annotated[int, Ge(1)] = 32  # images per step
    lr: Annotated[float, Gt(0)] = 2e-3  # of AdamW, at the top of one cycle
    width: Annotated[int, Ge(4)] = 128  # of a patch in the network; a multiple of 4
    blocks: Annotated[int, Ge(0)] = 3  # of attention among the patches of an image

    def lacks(self, threat: ThreatModel) -> str | None:
        return lacking(threat, self.blind)

    def run(self, view: View, generator: Generator) -> Recovered:
        found = recovered(view, self.blind, generator, "jigsaw")
        # Where nothing is shuffled the order received is the true one, which ties in a solver would give away.
        keys = torch.rand(found.targets.shape[:2], generator=generator)
        mixed = placed(found.targets, keys.argsort(1).to(found.targets.device))
        network = self._network(view, found, generator) if self.solver != "merging" else None
        order = solved(mixed, found.board, network, self.solver)
        return Recovered(inputs=found.board.images(placed(mixed, order)))

    def _network(self, view: View, found: Patches, generator: Generator) -> Arranger:
        assert view.auxiliary is not None
        board, x = found.board, view.auxiliary.x
        with seeded(int(torch.randint(2**62, (), generator=generator)), "jigsaw"):
            network = Arranger(board, self.width, self.blocks).to(x.device)
        # The network sees a set, so that during training the true order is as good as any.
        places = torch.arange(board.places, device=x.device)

        def loss(images: Tensor) -> Tensor:
            patches = examples(images, board, found.loss, generator)
            place, neighbours = network(patches)
            return mistakes(place, neighbours, places.expand(len(images), -1), board)

        trained(network, x, Course(self.steps, self.batch, self.lr), loss, generator, "jigsaw")
        return network
