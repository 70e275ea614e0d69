"""MiniLM, pretrained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import nn

from splitbench.core.data import Modality
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import Model
from splitbench.core.places import under_data_folders
from splitbench.models._encoders import build as _encoders
from splitbench.models._encoders import published as _published

_LAYERS = 6
_PLACE = "weights/minilm"
_SIZE = {
    "model_type": "bert",
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "num_hidden_layers": _LAYERS,
    "hidden_size": 384,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}


@dataclass(frozen=True)
class MiniLM(Model):
    """Six transformer layers of width 384 over WordPiece tokens, pretrained and small enough to fine-tune on a CPU.

    Wang et al., "MiniLM: Deep self-attention distillation for task-agnostic compression of pre-trained transformers",
    2020. https://arxiv.org/abs/2002.10957
    Cut at the word embeddings (`embeddings`), as SEAL cuts RoBERTa. Give the data its tokenizer: the same folder.
    Departs from the paper: the head is dropout and one linear layer on the mean over all tokens, as sentence encoders
    have it, not on the first token.
    """

    modality: ClassVar[Modality] = "text"
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    weights: str = ""  # folder of config.json and model.safetensors; empty: weights/minilm in the data; none: random

    @property
    def cuts(self) -> Mapping[str, str]:
        return _encoders.cuts(_LAYERS)

    def read_paths(self) -> tuple[Path, ...]:
        folder = self._folder()
        return () if folder is None else tuple(folder / name for name in _published.FILES)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        if self.weights == "none":
            configuration = _published.described(_SIZE, "minilm")
            return _encoders.build("minilm", configuration, shape, classes, pooling="mean")
        folder = self._folder()
        if folder is None:
            raise SplitbenchError(
                f"no weights for minilm: SPLITBENCH_DATA names no folder with {_PLACE}. Set `weights` to a folder with "
                "config.json and model.safetensors, or to none for random ones"
            )
        configuration = _published.configuration(folder)
        if configuration.layers != _LAYERS:
            raise SplitbenchError(
                f"the encoder in {folder} has {configuration.layers} layers, minilm has {_LAYERS}; "
                "give the folder itself as the model"
            )
        return _encoders.build("minilm", configuration, shape, classes, str(folder), "mean")

    def _folder(self) -> Path | None:
        if self.weights == "none":
            return None
        return Path(self.weights).expanduser() if self.weights else under_data_folders(_PLACE)
