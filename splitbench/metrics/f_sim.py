"""Similarity of deep features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from splitbench.core.metric import Metric, Truth
from splitbench.metrics._embedding.embedder import embedder
from splitbench.metrics._embedding.files import absent, paths
from splitbench.metrics._images import checked, unsuitable


@dataclass(frozen=True)
class FSim(Metric):
    """The cosine of the angle between deep features of the original and the recovered image (F-SIM).

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, section V-A:
    the features that the last linear classifier is given, of InceptionResnetV1 (VGGFace2) for faces and of ResNet-18
    (ImageNet) for objects. https://github.com/dixiyao/PatchShuffling
    Images are resized bilinearly to the embedder's input, grey ones get three equal channels, and an .onnx file gets
    them normalised by the mean and standard deviation of ImageNet.
    Departs from the paper: the embedder is whatever file is given, so compare values of one embedder only. A
    .safetensors file of one of the paper's two networks gives the paper's metric. Two unrelated images have no fixed
    value either: print the similarity of different people or objects beside it.
    """

    modality: ClassVar[str | None] = "image"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    weights: str = ""  # an .onnx or .safetensors file, here or in the data folders, or efficientnet_lite0

    def read_paths(self) -> tuple[Path, ...]:
        return paths(self.weights)

    def check(self) -> None:
        embedder("f_sim", self.weights)

    def applies(self, truth: Truth) -> str | None:
        return super().applies(truth) or unsuitable(truth) or absent("f_sim", self.weights)

    def __call__(self, recovered: Tensor, truth: Truth) -> Tensor:
        recovered, true = checked(recovered, truth.values)
        embed = embedder("f_sim", self.weights)
        return (embed(recovered) * embed(true)).sum(1).clamp(-1, 1)  # clamp keeps NaN
