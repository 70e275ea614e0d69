"""Text as token ids between two marks: RoBERTa's <s> and </s>, or BERT's [CLS] and [SEP]."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # of a tokenizer that is trained here, with RoBERTa's ids 0 to 3
USUAL = 8192  # token ids of a tokenizer that is trained here
_MARKS = (("<s>", "</s>", "<unk>"), ("[CLS]", "[SEP]", "[UNK]"))  # before a text, after it, for what is unknown


def tokenizer(source: str, vocabulary: int, texts: tuple[str, ...]) -> Any:
    """One from a file or folder, or, without a source, one trained on the texts; all ids are below `vocabulary`.

    A vocabulary of 0 is the tokenizer's own, or the usual size for one that is trained.
    """
    made = _read(Path(source).expanduser()) if source else _trained(texts, vocabulary or USUAL)
    _marks(made, source)
    needed = 1 + max(made.get_vocab(with_added_tokens=True).values())
    if vocabulary and needed > vocabulary:
        raise SplitbenchError(f"the tokenizer {source} has {needed} tokens; set `vocabulary` to {needed} or more")
    return made


def _marks(tokenizer: Any, source: str) -> tuple[int, int, int]:
    """The ids of what stands before a text, of what stands after it, and of an unknown token."""
    for marks in _MARKS:
        before, after, unknown = map(tokenizer.token_to_id, marks)
        if None not in (before, after, unknown):
            return before, after, unknown
    families = " nor ".join(", ".join(marks) for marks in _MARKS)
    raise SplitbenchError(f"the tokenizer {source} has neither {families}; give one of RoBERTa's or BERT's kind")


def encode(tokenizer: Any, texts: Sequence[str], length: int, keep: str = "first") -> Tensor:
    """(N, length): the first mark, the text cut to fit or repeated to fill, the last mark.

    Of a text that is too long, the first or the last tokens are kept.
    """
    room = length - 2
    before, after, unknown = _marks(tokenizer, "")
    tokens = [found.ids or [unknown] for found in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    sizes = np.array([len(ids) for ids in tokens])
    flat = np.concatenate(tokens)
    starts = np.cumsum(sizes) - sizes
    if keep == "last":
        starts = starts + np.maximum(sizes - room, 0)
    x = np.empty((len(tokens), length), np.int64)
    x[:, 0], x[:, -1] = before, after
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
