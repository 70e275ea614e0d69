"""The patches of shuffled images, without their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from torch import Generator

from splitbench.attacks._jigsaw.recovering import Blind, lacking, recovered
from splitbench.core.attack import Attack
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class PatchSet(Attack):
    """Map each token to its patch by ridge regression, and leave the patches in the order in which they came.

    Beyond Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022
    (https://github.com/dixiyao/PatchShuffling), whose attackers look for images: a shuffle hides the order of the
    patches and nothing of the patches themselves. With the client's weights the pairs are exact; with queries alone,
    whose answers are shuffled too, tokens and patches are matched on the way.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)  # and queries, or weights: see `lacks`
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"ssim": {"*": 0.7}})

    blind: Blind = "auto"  # yes: the order of its own queries is not known to it; auto: unless weights are granted

    def lacks(self, threat: ThreatModel) -> str | None:
        return lacking(threat, self.blind)

    def run(self, view: View, generator: Generator) -> Recovered:
        found = recovered(view, self.blind, generator, "patch_set")
        return Recovered(inputs=found.board.images(found.targets))
