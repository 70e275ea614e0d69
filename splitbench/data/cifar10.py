from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._download.source import Source
from splitbench.data._folders import locate
from splitbench.data._formats import checks
from splitbench.data._formats import npz as _npz
from splitbench.data._formats import pickles as _pickles

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Cifar10(Data):
    """Small photographs, 32x32 colour, 10 classes.

    Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    Read from an .npz, the binary version or the Python version (without letting its pickles run anything).
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = (
        "cifar10.npz",
        "cifar-10-batches-bin/data_batch_1.bin",
        "cifar-10-batches-py/data_batch_1",
        "cifar10/cifar-10-batches-bin/data_batch_1.bin",
        "cifar10/cifar-10-batches-py/data_batch_1",
    )
    sources: ClassVar[tuple[Source, ...]] = (
        Source(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            "cifar-10-batches-bin",
            "tar",
        ),
    )
    names: ClassVar[tuple[str, ...]] = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("cifar10", self.files, folders)
        if path.suffix == ".npz":
            return _npz.read(path, "cifar10", _npz.Layout(known=self.names, image=(32, 32, 3)))
        batches = [path.with_name(f"data_batch_{i}{path.suffix}") for i in range(1, 6)]
        train, test = _samples(batches), _samples([path.with_name(f"test_batch{path.suffix}")])
        return DataSet("cifar10", train, test, len(self.names), names=self.names)


def _samples(paths: Sequence[Path]) -> Samples:
    parts = [_binary(path) if path.suffix == ".bin" else _python(path) for path in paths]
    x = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32)
    y = [checks.labels(found, f"{path}: labels", len(x), 10) for path, (x, found) in zip(paths, parts, strict=True)]
    return Samples(torch.from_numpy(x), torch.cat(y))


def _binary(path: Path) -> tuple[checks.Array, checks.Array]:
    """Records of one label byte and the red, green and blue planes."""
    try:
        values = np.fromfile(path, np.uint8)
    except OSError as error:
        raise SplitbenchError(f"{path} cannot be read: {error.strerror}") from error
    if len(values) == 0 or len(values) % (1 + _PIXELS):
        raise SplitbenchError(f"{path} has {len(values)} bytes, not a whole number of records of {1 + _PIXELS}")
    records = values.reshape(-1, 1 + _PIXELS)
    return records[:, 1:], records[:, 0]


def _python(path: Path) -> tuple[checks.Array, checks.Array]:
    """A dictionary of `data`, with the planes in a row, and `labels`."""
    batch = _pickles.read(path)
    x, y = batch.get("data"), batch.get("labels")
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != _PIXELS or not len(x):
        raise SplitbenchError(f"{path}: 'data' is not an array of uint8 with rows of {_PIXELS}")
    if not isinstance(y, (list, np.ndarray)) or not all(isinstance(label, (int, np.integer)) for label in y):
        raise SplitbenchError(f"{path}: 'labels' is not a list of whole numbers")
    return x, np.asarray(y)
