"""The reviews of IMDB, from a file of JSON lines or the folders of the original."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import NamedTuple

from splitbench.core.errors import SplitbenchError


class Reviews(NamedTuple):
    texts: tuple[str, ...]
    labels: tuple[int, ...]  # 0 negative, 1 positive


def from_lines(path: Path) -> dict[str, Reviews]:
    """Lines of {"split": "train" or "test", "label": 0 or 1, "text": ...}, in a .jsonl or .jsonl.gz."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = raw.decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SplitbenchError(f"{path} cannot be read: {error}") from error
    found: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            review = json.loads(line)
            split, label, text = review["split"], review["label"], review["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise SplitbenchError(f"{path}, line {number}: expected split, label and text as JSON ({error})") from error
        if split not in ("train", "test") or label not in (0, 1) or not isinstance(text, str):
            raise SplitbenchError(
                f"{path}, line {number}: expected split train or test, label 0 or 1 and a text, "
                f"got split {split!r}, label {label!r} and a {type(text).__name__}"
            )
        found[split].append((text, int(label)))
    return {split: _gathered(pairs, f"{path}: split {split}") for split, pairs in found.items()}


def from_folders(root: Path) -> dict[str, Reviews]:
    """`aclImdb`: train and test, each with pos and neg, each with a text file a review."""
    found = {}
    for split in ("train", "test"):
        pairs: list[tuple[str, int]] = []
        for label, kind in enumerate(("neg", "pos")):
            paths = sorted((root / split / kind).glob("*.txt"))
            if not paths:
                raise SplitbenchError(f"{root / split / kind} holds no reviews (*.txt)")
            pairs += [(path.read_text(encoding="utf-8", errors="replace"), label) for path in paths]
        found[split] = _gathered(pairs, str(root / split))
    return found


def _gathered(pairs: list[tuple[str, int]], where: str) -> Reviews:
    if not pairs:
        raise SplitbenchError(f"{where} holds no reviews")
    texts, labels = zip(*pairs, strict=True)
    return Reviews(texts, labels)
