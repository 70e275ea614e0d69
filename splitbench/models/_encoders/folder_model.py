"""An encoder given as a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import nn

from splitbench.core.data import Modality
from splitbench.core.model import Model
from splitbench.models._encoders import build as _encoders
from splitbench.models._encoders import published as _published


@dataclass(frozen=True)
class FolderEncoder(Model):
    """A pretrained BERT, RoBERTa or DistilBERT from a folder with config.json and model.safetensors.

    The head is dropout and one linear layer on the mean of all tokens, or on the pooled first token.
    """

    modality: ClassVar[Modality] = "text"
    folder: ClassVar[Path]
    spec: ClassVar[str]  # as the user wrote it

    pooling: _encoders.Pooling = "mean"  # what the head sees: the mean of all tokens, or the first one as in BERT

    @property
    def cuts(self) -> Mapping[str, str]:
        return _encoders.cuts(_published.configuration(self.folder).layers)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        configuration = _published.configuration(self.folder)
        return _encoders.build(self.spec, configuration, shape, classes, str(self.folder), self.pooling)
