"""Builds a RoBERTa of any size, and fills it from a published checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.models._parts import weights as _weights
from splitbench.models._roberta.network import PAD, Roberta
from splitbench.models._timm.torchvision import declare_missing_operators


@dataclass(frozen=True)
class Sizes:
    """What distinguishes one RoBERTa from another."""

    vocabulary: int
    length: int
    layers: int
    width: int
    heads: int


def cuts(layers: int) -> dict[str, str]:
    between = {f"layer{i + 1}": f"layers.{i}" for i in range(layers)}
    return {"embeddings": "embeddings", "embedded": "embedded", **between, "pool": "pool"}


def build(name: str, sizes: Sizes, shape: tuple[int, ...], classes: int, weights: str = "") -> nn.Module:
    _check(name, sizes, shape)
    make_config, make_model = _transformers(name)
    config = make_config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.width,
        max_position_embeddings=sizes.length + PAD + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=PAD,
    )
    network = Roberta(make_model(config), classes, config.hidden_dropout_prob)
    if weights:
        # Published checkpoints come with another head, and most without the pooler.
        _weights.load(network, weights, _ours, spare=("pool.", "head."))
    return network


def _check(name: str, sizes: Sizes, shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise SplitbenchError(
            f"{name} takes texts as token ids, but a sample of this data has shape {shape}; "
            "choose a data set of texts such as imdb, or an image model such as resnet18"
        )
    if shape[0] > sizes.length:
        raise SplitbenchError(f"{name}: texts of {shape[0]} tokens do not fit length={sizes.length}; raise `length`")
    if sizes.width % sizes.heads:
        raise SplitbenchError(f"{name}: width={sizes.width} is not a multiple of heads={sizes.heads}")


def _transformers(name: str) -> tuple[Any, Any]:
    try:
        declare_missing_operators()
        from transformers import RobertaConfig, RobertaModel
    except ImportError as error:
        raise SplitbenchError(f"{name} needs transformers ({error}): pip install 'splitbench[text]'") from error
    return RobertaConfig, RobertaModel


_NAMES = {
    "embeddings.word_embeddings": "embeddings.words",
    "embeddings.position_embeddings": "embedded.positions",
    "embeddings.token_type_embeddings": "embedded.types",
    "embeddings.LayerNorm": "embedded.norm",
    "pooler": "pool",
}


def _ours(theirs: str) -> str:
    """A parameter's name in a published checkpoint, as it is called here."""
    name = theirs.removeprefix("roberta.")
    name = re.sub(r"^encoder\.layer\.(\d+)\.", r"layers.\1.layer.", name)
    for start, here in _NAMES.items():
        if name.startswith(start + "."):
            return here + name.removeprefix(start)
    return name
