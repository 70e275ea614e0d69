"""An encoder as it is published on the Hugging Face hub: a folder with config.json and model.safetensors."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from splitbench.core.errors import SplitbenchError
from splitbench.models._encoders.build import KINDS, Configuration

FILES = ("config.json", "model.safetensors")  # what decides the network; a tokenizer is the data's affair

# Our words for a size: those of BERT and RoBERTa, and those of DistilBERT.
_SIZES = {
    "vocabulary": ("vocab_size", "vocab_size"),
    "positions": ("max_position_embeddings", "max_position_embeddings"),
    "layers": ("num_hidden_layers", "n_layers"),
    "width": ("hidden_size", "dim"),
    "heads": ("num_attention_heads", "n_heads"),
}
_OPTIONS = {
    False: (
        "intermediate_size",
        "hidden_act",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "type_vocab_size",
        "layer_norm_eps",
        "pad_token_id",
        "initializer_range",
    ),
    True: ("hidden_dim", "activation", "dropout", "attention_dropout", "pad_token_id", "initializer_range"),
}


def configuration(folder: Path) -> Configuration:
    """What the folder's config.json says, if it describes an encoder that can be built here."""
    path = folder / "config.json"
    if not path.is_file():
        raise SplitbenchError(f"no config.json in {folder}; an encoder is a folder with {' and '.join(FILES)}")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SplitbenchError(f"{path} cannot be read: {error}") from error
    if not isinstance(said, dict):
        raise SplitbenchError(f"{path} does not describe an encoder: it holds a {type(said).__name__}")
    return described(said, str(path))


def described(said: Mapping[str, Any], where: str) -> Configuration:
    """A configuration from the contents of a config.json."""
    kind = said.get("model_type")
    if kind not in KINDS:
        raise SplitbenchError(f"{where}: model_type is {kind!r}; encoders of {', '.join(KINDS)} can be built")
    if said.get("position_embedding_type", "absolute") != "absolute":
        raise SplitbenchError(
            f"{where}: positions are {said['position_embedding_type']!r}; only absolute ones are built"
        )
    distilled = kind == "distilbert"
    names = {ours: theirs[distilled] for ours, theirs in _SIZES.items()}
    for name in names.values():
        value = said.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SplitbenchError(f"{where}: {name} must be a whole number of at least 1, got {value!r}")
    options = {name: said[name] for name in (*names.values(), *_OPTIONS[distilled]) if name in said}
    return Configuration(kind, **{ours: said[theirs] for ours, theirs in names.items()}, options=options)


def version(folder: Path) -> str:
    """Weights that nobody published have no version but their contents."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    states = [file.stat() for file in files]
    return _digest(tuple((file, state.st_size, state.st_mtime_ns) for file, state in zip(files, states, strict=True)))


@functools.lru_cache(maxsize=16)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """Kept until the size or the time of a file changes."""
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{path.name}:{size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
