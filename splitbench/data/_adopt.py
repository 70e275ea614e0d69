"""Your own data: a path to an `.npz`, a table or a folder of images, in the place of a data set's name."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Ge

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.data._formats import holdout as _holdout
from splitbench.data._formats import images as _images
from splitbench.data._formats import npz as _npz
from splitbench.data._formats import tables as _tables

_ENDINGS = (".png", ".jpg", ".jpeg")
_TABLES = (".csv", ".csv.gz")
_LAYOUTS = (
    "an .npz with x_train, y_train, x_test and y_test, a .csv or .csv.gz with a header and a column 'label', "
    "or a folder of images with one folder per class"
)


def adopt(name: str, thing: object) -> type[Data] | None:
    """A data set made of a path; None if the name is none."""
    path = Path(name).expanduser()
    if thing is not None or (not path.exists() and "/" not in name and not name.endswith((".npz", *_TABLES))):
        return None
    if not path.exists():
        beside = [str(path.parent / other.name) for other in path.parent.glob("*")] if path.parent.is_dir() else []
        raise SplitbenchError(f"no file or folder '{name}'{nearest(name, beside) if beside else ''}")
    if path.is_dir():
        base: type[Data] = ImageFolder
        version = _version(path, [file for files in _tree(path).values() for file in files])
    elif path.suffix == ".npz":
        base, version = NpzFile, _version(path, [path])
    elif name.endswith(_TABLES):
        base, version = TableFile, _version(path, [path])
    else:
        raise SplitbenchError(f"'{name}' cannot be read as data: it must be {_LAYOUTS}")
    known = {"files": (str(path.resolve()),), "version": version, "__doc__": base.__doc__, "__module__": __name__}
    return type(base.__name__, (base,), known)


@dataclass(frozen=True)
class NpzFile(Data):
    """Your own data in an .npz: x_train, y_train, x_test, y_test and perhaps classes, which names them."""

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = Path(self.files[0])
        return _npz.read(path, path.stem)


@dataclass(frozen=True)
class TableFile(Data):
    """Your own table: a column 'label' with the class; columns of numbers are numeric fields, others categorical.

    Numbers are standardised over the training rows, a missing one is 0, the mean. The commonest categories of a field
    have ids of their own, the others share id 0; a missing category is one of its own. The last fifth of the rows of
    every class is for testing.
    """

    modality: ClassVar[Modality] = "tabular"

    categories: Annotated[int, Ge(2)] = 1000  # ids of a field at most, with the one that rare categories share

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = Path(self.files[0])
        table = _tables.read(path)
        y, names = _tables.labels(table)
        order = np.argsort(y, kind="stable")
        held = np.zeros(len(y), np.bool_)
        held[order] = _holdout.last_fifth(y[order])
        if not held.any():
            raise SplitbenchError(f"{path} has too few rows to hold any back for testing")
        features = [column for column in table.columns if column != "label"]
        if not features:
            raise SplitbenchError(f"{path} has no column beside 'label'")
        columns = [
            _tables.numeric(table, name, ~held)
            if _tables.is_numeric(table.columns[name])
            else _tables.categorical(table, name, ~held, self.categories)
            for name in features
        ]
        x = torch.stack([values for values, _ in columns], 1)
        train, test = (Samples(x[rows], torch.from_numpy(y[rows])) for rows in (~held, held))
        fields = tuple(field for _, field in columns)
        name = path.name.removesuffix(".gz").removesuffix(".csv")
        return DataSet(name, train, test, len(names), names=names, modality="tabular", fields=fields)


@dataclass(frozen=True)
class ImageFolder(Data):
    """Your own images: train/<class>/* and test/<class>/*, or <class>/*, of which the last fifth are for testing."""

    size: Annotated[int, Ge(0)] = 0  # height and width to bring images to; 0: as they are, all of one size

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        root = Path(self.files[0])
        tree = _tree(root)
        paths = [path for files in tree.values() for path in files]
        found, channels = _images.survey(paths, same_size=self.size == 0)
        names, y = np.unique([path.parent.name for path in paths], return_inverse=True)
        if (root / "train").is_dir():
            held = np.array([path.parts[len(root.parts)] == "test" for path in paths])
        else:
            held = _holdout.last_fifth(y)
        if not held.any():
            raise SplitbenchError(f"{root} has too few images to hold any back for testing")
        x = _images.decode(paths, (self.size, self.size) if self.size else found, channels)
        train, test = (Samples(x[rows], torch.from_numpy(y[rows])) for rows in (~held, held))
        return DataSet(root.name, train, test, len(names), names=tuple(names.tolist()))


def _tree(root: Path) -> dict[str, list[Path]]:
    """The images of every class folder, in order; every folder must hold some."""
    split = (root / "train").is_dir()
    if split and not (root / "test").is_dir():
        raise SplitbenchError(f"{root} has a folder 'train' but no folder 'test'")
    tree = {
        str(folder.relative_to(root)): sorted(file for file in folder.iterdir() if file.suffix.lower() in _ENDINGS)
        for half in ((root / "train", root / "test") if split else (root,))
        for folder in sorted(half.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
    }
    if not tree:
        raise SplitbenchError(f"{root} cannot be read as data: it must be {_LAYOUTS}")
    for folder, files in tree.items():
        if not files:
            raise SplitbenchError(f"{root / folder} holds no images ({', '.join(_ENDINGS)})")
    trained = {Path(folder).name for folder in tree if folder.startswith("train")}
    for folder in tree:
        if split and Path(folder).name not in trained:
            raise SplitbenchError(f"{root / folder} has no counterpart in 'train'{nearest(Path(folder).name, trained)}")
    return tree


def _version(root: Path, files: Sequence[Path]) -> str:
    """Data that nobody published has no version but its contents."""
    states = [file.stat() for file in files]
    return _digest(
        root, tuple((file, state.st_size, state.st_mtime_ns) for file, state in zip(files, states, strict=True))
    )


@functools.lru_cache(maxsize=64)
def _digest(root: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    """Kept until the size or the time of a file changes."""
    digest = hashlib.sha256()
    for path, size, _ in files:
        digest.update(f"{path.relative_to(root)}:{size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
