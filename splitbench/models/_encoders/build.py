"""Builds an encoder of the BERT family from its configuration, and fills it from a published checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.torchvision import declare_missing_operators
from splitbench.models._encoders.network import Encoder, First, Mean
from splitbench.models._parts import weights as _weights

Pooling = Literal["mean", "first"]
KINDS = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}  # model_type and transformers' prefix


@dataclass(frozen=True)
class Configuration:
    """What distinguishes one encoder from another, in the words of its `config.json`."""

    kind: str  # one of KINDS
    vocabulary: int
    positions: int
    layers: int
    width: int
    heads: int
    options: Mapping[str, Any]  # for transformers

    @property
    def first(self) -> int:
        """The number of the first position; RoBERTa counts from the one after its padding token."""
        return 1 + int(self.options.get("pad_token_id") or 1) if self.kind == "roberta" else 0

    @property
    def length(self) -> int:
        """Tokens in the longest text."""
        return self.positions - self.first


def roberta(vocabulary: int, length: int, layers: int, width: int, heads: int) -> Configuration:
    """A RoBERTa of any size."""
    pad = 1
    options = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        "max_position_embeddings": length + pad + 1,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": pad,
    }
    return Configuration("roberta", vocabulary, length + pad + 1, layers, width, heads, options)


def cuts(layers: int) -> dict[str, str]:
    between = {f"layer{i + 1}": f"layers.{i}" for i in range(layers)}
    return {"embeddings": "embeddings", "embedded": "embedded", **between, "pool": "pool"}


def build(
    name: str,
    configuration: Configuration,
    shape: tuple[int, ...],
    classes: int,
    weights: str = "",
    pooling: Pooling = "first",
) -> nn.Module:
    """The encoder, in single precision whatever the weights are stored in; without weights, random."""
    _check(name, configuration, shape)
    make_config, make_model = _transformers(name, configuration.kind)
    try:
        config = make_config(**configuration.options)
        has_pooler = configuration.kind != "distilbert"
        model = make_model(config, **({"add_pooling_layer": pooling == "first"} if has_pooler else {}))
    except (TypeError, ValueError, KeyError) as error:
        raise SplitbenchError(f"{name} cannot be built from its configuration: {error}") from error
    pool: nn.Module = Mean()
    if pooling == "first":
        pool = model.pooler if has_pooler else First(configuration.width)
    dropout = config.hidden_dropout_prob if has_pooler else config.dropout
    network = Encoder(model, pool, classes, dropout, configuration.first)
    if weights and not next(network.parameters()).is_meta:
        # Published checkpoints come with another head, and most without the pooler.
        _weights.load(network, weights, _ours, spare=("pool.", "head."))
    return network


def _check(name: str, configuration: Configuration, shape: tuple[int, ...]) -> None:
    if len(shape) != 1:
        raise SplitbenchError(
            f"{name} takes texts as token ids, but a sample of this data has shape {shape}; "
            "choose a data set of texts such as imdb, or an image model such as resnet18"
        )
    if shape[0] > configuration.length:
        raise SplitbenchError(f"{name}: texts of {shape[0]} tokens do not fit length={configuration.length}")
    if configuration.width % configuration.heads:
        width, heads = configuration.width, configuration.heads
        raise SplitbenchError(f"{name}: width={width} is not a multiple of heads={heads}")


def _transformers(name: str, kind: str) -> tuple[Any, Any]:
    try:
        declare_missing_operators()
        import transformers
    except ImportError as error:
        raise SplitbenchError(f"{name} needs transformers ({error}): pip install 'splitbench[text]'") from error
    return getattr(transformers, f"{KINDS[kind]}Config"), getattr(transformers, f"{KINDS[kind]}Model")


_NAMES = {
    "embeddings.word_embeddings": "embeddings.words",
    "embeddings.position_embeddings": "embedded.positions",
    "embeddings.token_type_embeddings": "embedded.types",
    "embeddings.LayerNorm": "embedded.norm",
    "pooler": "pool",
}


def _ours(theirs: str) -> str:
    """A parameter's name in a published checkpoint, as it is called here."""
    name = re.sub(rf"^({'|'.join(KINDS)})\.", "", theirs)
    name = re.sub(r"^(encoder|transformer)\.layer\.(\d+)\.", r"layers.\2.layer.", name)
    # The first BERT was published with TensorFlow's names for the two halves of a layer norm.
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    for start, here in _NAMES.items():
        if name.startswith(start + "."):
            return here + name.removeprefix(start)
    return name
