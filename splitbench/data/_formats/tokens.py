"""Text as token ids of RoBERTa's kind: byte-level BPE with <s>=0, <pad>=1, </s>=2, <unk>=3."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")


def tokenizer(source: str, vocabulary: int, texts: tuple[str, ...]) -> Any:
    """One from a file or folder, or, without a source, one trained on the texts; all ids are below `vocabulary`."""
    made = _read(Path(source).expanduser()) if source else _trained(texts, vocabulary)
    for number, token in enumerate(SPECIALS):
        if made.token_to_id(token) != number:
            raise SplitbenchError(f"{source}: {token} has the id {made.token_to_id(token)}, in RoBERTa it is {number}")
    needed = 1 + max(made.get_vocab(with_added_tokens=True).values())
    if needed > vocabulary:
        raise SplitbenchError(f"the tokenizer {source} has {needed} tokens; set `vocabulary` to {needed} or more")
    return made


def encode(tokenizer: Any, texts: Sequence[str], length: int) -> Tensor:
    """(N, length): <s>, the text cut to fit or repeated to fill, </s>."""
    room = length - 2
    tokens = [found.ids or [3] for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    sizes = np.array([len(ids) for ids in tokens])
    flat = np.concatenate(tokens)
    starts = np.cumsum(sizes) - sizes
    x = np.empty((len(tokens), length), np.int64)
    x[:, 0], x[:, -1] = 0, 2
    x[:, 1:-1] = flat[starts[:, None] + np.arange(room) % sizes[:, None]]
    return torch.from_numpy(x)


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise SplitbenchError("text needs the package 'tokenizers': pip install 'splitbench[text]'") from error
    return tokenizers


@functools.lru_cache(maxsize=2)
def _trained(texts: tuple[str, ...], vocabulary: int) -> Any:
    package = _package()
    made = _byte_level(package.models.BPE())
    trainer = package.trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=[*SPECIALS, "<mask>"],
        initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return made


def _byte_level(model: Any) -> Any:
    package = _package()
    made = package.Tokenizer(model)
    made.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = package.decoders.ByteLevel()
    return made


def _read(path: Path) -> Any:
    package = _package()
    if not path.is_dir():
        files = [path]
    elif (path / "tokenizer.json").is_file():
        files = [path / "tokenizer.json"]
    else:
        files = [path / "vocab.json", path / "merges.txt"]
    if missing := [file.name for file in files if not file.is_file()]:
        raise SplitbenchError(
            f"no tokenizer at {path}: {' and '.join(missing)} not found; give a tokenizer.json, or a folder with one "
            "or with RoBERTa's vocab.json and merges.txt"
        )
    try:
        if len(files) == 2:
            return _byte_level(package.models.BPE.from_file(*map(str, files)))
        made = package.Tokenizer.from_file(str(files[0]))
    except Exception as error:  # the package raises nothing more particular
        raise SplitbenchError(f"{files[0]} cannot be read as a tokenizer: {error}") from error
    made.no_truncation()
    made.no_padding()
    return made
