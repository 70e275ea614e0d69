"""RoBERTa, small enough for a desk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import nn

from splitbench.core.data import Modality
from splitbench.core.model import Model
from splitbench.models._encoders import build as _encoders


@dataclass(frozen=True)
class RobertaSmall(Model):
    """RoBERTa with a few narrow layers and a small vocabulary, to be trained from nothing.

    Liu et al., "RoBERTa", 2019. https://arxiv.org/abs/1907.11692
    Departs from the paper: its size, which is nobody's published one, and the head, as in `roberta_base`.
    """

    modality: ClassVar[Modality] = "text"

    vocabulary: Annotated[int, Ge(4)] = 8192  # token ids known; at least those of the data
    length: Annotated[int, Ge(1)] = 512  # tokens in the longest text
    layers: Annotated[int, Ge(1)] = 4  # transformer layers
    width: Annotated[int, Ge(1)] = 128  # of a token; a multiple of heads
    heads: Annotated[int, Ge(1)] = 4  # of attention

    @property
    def cuts(self) -> Mapping[str, str]:
        return _encoders.cuts(self.layers)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        configuration = _encoders.roberta(self.vocabulary, self.length, self.layers, self.width, self.heads)
        return _encoders.build("roberta_small", configuration, shape, classes)
