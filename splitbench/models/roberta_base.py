"""RoBERTa, the base size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import nn

from splitbench.core.data import Modality
from splitbench.core.model import Model
from splitbench.models._encoders import build as _encoders

_LAYERS = 12


@dataclass(frozen=True)
class RobertaBase(Model):
    """Twelve transformer layers of width 768 over byte-level BPE tokens.

    Liu et al., "RoBERTa", 2019. https://arxiv.org/abs/1907.11692
    SEAL's client is the word embeddings alone, the cut `embeddings`: 38,603,520 of 124,645,632 parameters (its
    table 4), counted without a classification head.
    Departs from the paper: the head is dropout and one linear layer on the pooled first token.
    """

    modality: ClassVar[Modality] = "text"
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    weights: str = ""  # pretrained weights: a .safetensors file or a folder that holds one; empty: random
    vocabulary: Annotated[int, Ge(4)] = 50265  # token ids known; at least those of the data
    length: Annotated[int, Ge(1)] = 512  # tokens in the longest text

    @property
    def cuts(self) -> Mapping[str, str]:
        return _encoders.cuts(_LAYERS)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        configuration = _encoders.roberta(self.vocabulary, self.length, _LAYERS, width=768, heads=12)
        return _encoders.build("roberta_base", configuration, shape, classes, self.weights)
