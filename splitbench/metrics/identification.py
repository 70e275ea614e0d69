"""Whether a recovered face is still that of the same person."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics._embedding.embedder import embedder
from splitbench.metrics._embedding.files import absent, paths
from splitbench.metrics._images import checked, unsuitable


@dataclass(frozen=True)
class Identification(Metric):
    """The share of recovered images whose nearest original, by deep features, shows the same person (ID).

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, section V-A:
    the success rate of identification. https://github.com/dixiyao/PatchShuffling
    Departs from the paper: there a classifier of all 10,177 people of CelebA identifies a face, a network trained
    on the whole data set. Here the gallery is the original images that were attacked, each person's several images
    and the very one included, and the nearest by cosine similarity decides: a few dozen people are easier to tell
    apart than ten thousand, so chance is the share of a person's images in the gallery and not 0.0001.
    """

    modality: ClassVar[str | None] = "image"
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    weights: str = ""  # an .onnx or .safetensors file, here or in the data folders, or efficientnet_lite0

    def read_paths(self) -> tuple[Path, ...]:
        return paths(self.weights)

    def check(self) -> None:
        embedder("identification", self.weights)

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth) or _nameless(truth) or absent("identification", self.weights)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        if why := _nameless(truth):
            raise SplitbenchError(why)
        recovered, true = checked(recovered, truth.values)
        embed, people = embedder("identification", self.weights), truth.extras["identity"]
        similar = embed(recovered) @ embed(true).nan_to_num(nan=0.0).T  # (N, N): guesses by originals
        same = people[similar.argmax(1)] == people
        unknown = similar.isnan().any(1) | true.isnan().flatten(1).any(1)
        return same.double().masked_fill(unknown, torch.nan)


def _nameless(truth: Truth) -> str | None:
    """Why it is not known who is shown; None if it is."""
    people = truth.extras.get("identity")
    if people is None:
        return "the data do not say who is shown: identification needs an extra `identity`, as celeba and lfw have"
    if people.shape != (len(truth),):
        return f"identities have shape {tuple(people.shape)}, expected one for each of {len(truth)} images"
    unknown = int((people < 0).sum())
    return f"{unknown} of {len(truth)} images show somebody whose identity is not known (-1)" if unknown else None
