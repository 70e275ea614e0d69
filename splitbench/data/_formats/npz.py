"""Data in one `.npz`: x_train, y_train, x_test, y_test and perhaps names; images uint8 (N, H, W, C)."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splitbench.core.data import DataSet, Samples, Task
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.data._formats import checks

# What numpy and zipfile raise on files that are cut short, scrambled, encrypted or hold pickles.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    RuntimeError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Layout:
    """Which array means what."""

    label: str = "y"  # prefix of the arrays that hold the labels
    task: Task = "classes"
    names: str = "classes"  # the array that names the classes or attributes, which a file may lack
    known: tuple[str, ...] = ()  # the names, for a file that lacks them
    image: tuple[int, int, int] | None = None  # height, width, channels, if they are given
    extras: tuple[str, ...] = ()  # prefixes of arrays to keep beside the labels


class _Arrays:
    """The arrays of one file, read when asked for; every error names the file and the array."""

    def __init__(self, path: Path, archive: Mapping[str, checks.Array]) -> None:
        self.path, self._archive = path, archive

    def __contains__(self, key: str) -> bool:
        return key in self._archive

    def __getitem__(self, key: str) -> checks.Array:
        if key not in self._archive:
            raise SplitbenchError(f"{self.path} has no array '{key}'{nearest(key, self._archive)}")
        try:
            return self._archive[key]
        except _UNREADABLE as error:
            raise SplitbenchError(f"{self.where(key)} cannot be read, the file is damaged: {error}") from error

    def where(self, key: str) -> str:
        return f"{self.path}: {key}"

    def names(self, key: str) -> tuple[str, ...]:
        found = self[key]
        if found.dtype.kind not in "US" or found.ndim != 1:
            raise SplitbenchError(f"{self.where(key)} is {found.dtype} {found.shape}; expected a row of strings")
        return tuple(map(str, found.astype(np.str_)))


@contextmanager
def _opened(path: Path) -> Iterator[_Arrays]:
    with ExitStack() as stack:
        try:
            # Opened here, because numpy leaves a file open that turns out to be damaged.
            archive = np.load(stack.enter_context(path.open("rb")), allow_pickle=False)
        except _UNREADABLE as error:
            raise SplitbenchError(f"{path} is not a readable .npz file: {error}") from error
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise SplitbenchError(f"{path} holds a single array; write several with numpy.savez_compressed")
        yield _Arrays(path, stack.enter_context(archive))


def read(path: Path, name: str, layout: Layout | None = None) -> DataSet:
    """The data set in a file; without a layout, what the arrays' names say."""
    with _opened(path) as arrays:
        layout = layout or _inferred(arrays)
        names = arrays.names(layout.names) if layout.names in arrays else layout.known
        train = _samples(arrays, "train", layout, names)
        test = _samples(arrays, "test", layout, names)
    if train.x.shape[1:] != test.x.shape[1:]:
        shapes = [tuple(part.x.shape[1:]) for part in (train, test)]
        raise SplitbenchError(
            f"{path}: x_train and x_test have images of different shapes, {shapes[0]} and {shapes[1]}"
        )
    if layout.task == "attributes":
        if train.y.shape[1] != test.y.shape[1]:
            raise SplitbenchError(f"{path}: {layout.label}_train and {layout.label}_test differ in width")
        return DataSet(name, train, test, train.y.shape[1], layout.task, names)
    classes = len(names) or counted(train, test, str(path))
    return DataSet(name, train, test, classes, layout.task, names)


def counted(train: Samples, test: Samples, where: str) -> int:
    """How many classes the training labels show; a test label beyond them could never be learned."""
    classes = int(train.y.max()) + 1
    if test.y.max() >= classes:
        raise SplitbenchError(
            f"{where}: y_test holds the label {int(test.y.max())}, but y_train only 0 to {classes - 1}"
        )
    if classes > len(train):
        raise SplitbenchError(
            f"{where}: labels go up to {classes - 1} with {len(train)} training samples; number the classes from 0"
        )
    return classes


def _samples(arrays: _Arrays, split: str, layout: Layout, names: tuple[str, ...]) -> Samples:
    pixels, label = f"x_{split}", f"{layout.label}_{split}"
    x = checks.images(arrays[pixels], arrays.where(pixels), layout.image)
    if layout.task == "attributes":
        y = checks.attributes(arrays[label], arrays.where(label), len(x), names)
    else:
        y = checks.labels(arrays[label], arrays.where(label), len(x), len(names) or None)
    keys = {kind: f"{kind}_{split}" for kind in layout.extras}
    return Samples(x, y, {kind: checks.extra(arrays[key], arrays.where(key), len(x)) for kind, key in keys.items()})


def _inferred(arrays: _Arrays) -> Layout:
    """Labels are `y`, else `attributes`, else `identity`; identities and genders beside them are extras."""
    extras = tuple(kind for kind in ("identity", "gender") if f"{kind}_train" in arrays)
    if "y_train" in arrays:
        return Layout(extras=extras)
    if "attributes_train" in arrays:
        return Layout("attributes", "attributes", "attribute_names", extras=extras)
    if "identity_train" in arrays:
        return Layout("identity", names="identity_names", extras=extras)
    return Layout()
