"""Mean squared error, whatever the order of the patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._images import checked
from splitbench.metrics._patches import indivisible, reassigned


@dataclass(frozen=True)
class PatchMSE(Metric):
    """The mean squared error of each image after its patches were put where they fit best.

    What an attack knows of the patches, apart from their order. The places are those of the least squared error
    (Kuhn, "The Hungarian method for the assignment problem", 1955, https://doi.org/10.1002/nav.3800020109), found with
    the truth: no attacker has them, and noise too gains a little from it.
    """

    modality: ClassVar[str | None] = "image"
    on_request: ClassVar[bool] = True  # it is about patches, of a size that somebody has to say
    leaks_when: ClassVar[Literal["high", "low"]] = "low"
    tolerance: ClassVar[float] = 0.005

    patch: Annotated[int, Ge(1)] = 8  # side of a patch in pixels

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or indivisible(truth, self.patch)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values)
        return (reassigned(recovered, true, self.patch) - true).square().flatten(1).mean(1)
