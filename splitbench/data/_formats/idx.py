"""The idx files of MNIST and Fashion-MNIST, compressed or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from splitbench.core.data import DataSet, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._download.source import Source
from splitbench.data._formats import checks

_FIRST = "train-images-idx3-ubyte"
_PARTS = (_FIRST, "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def places(*folders: str) -> tuple[str, ...]:
    """Where the first of the four files may be, under a data folder."""
    return tuple(f"{folder}/{_FIRST}{ending}" for folder in folders for ending in ("", ".gz"))


def sources(base: str, folder: str, digests: tuple[str, str, str, str]) -> tuple[Source, ...]:
    return tuple(
        Source(f"{base}/{part}.gz", f"md5:{digest}", f"{folder}/{part}.gz")
        for part, digest in zip(_PARTS, digests, strict=True)
    )


def dataset(name: str, first: Path, names: tuple[str, ...]) -> DataSet:
    """The four files beside the first one."""
    a, b, c, d = (_beside(first, part) for part in _PARTS)
    train, test = _samples(a, b, len(names)), _samples(c, d, len(names))
    return DataSet(name, train, test, len(names), names=names)


def _samples(pixels: Path, label: Path, classes: int) -> Samples:
    x = checks.images(read(pixels, 3)[..., None], str(pixels), (28, 28, 1))
    return Samples(x, checks.labels(read(label, 1), str(label), len(x), classes))


def _beside(first: Path, part: str) -> Path:
    for path in (first.parent / part, first.parent / f"{part}.gz"):
        if path.exists():
            return path
    raise SplitbenchError(f"{first} is there, but {first.parent} has neither {part} nor {part}.gz")


def read(path: Path, rank: int) -> checks.Array:
    """One idx file of bytes: two zeros, 8 for uint8, the rank, the sizes as big-endian int32, the values."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise SplitbenchError(f"{path} cannot be read: {error}") from error
    start = 4 + 4 * rank
    if len(raw) < start or raw[:4] != bytes([0, 0, 8, rank]):
        raise SplitbenchError(f"{path} is not an idx file of uint8 values with {rank} axes (it begins {raw[:4].hex()})")
    shape = tuple(int(size) for size in np.frombuffer(raw, ">u4", rank, 4))
    if len(raw) - start != math.prod(shape):
        raise SplitbenchError(f"{path} holds {len(raw) - start} values; its header promises {math.prod(shape)}")
    return np.frombuffer(bytearray(raw), np.uint8, offset=start).reshape(shape)
