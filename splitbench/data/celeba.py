from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import pandas as pd
from annotated_types import Ge

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._folders import locate
from splitbench.data._formats import checks
from splitbench.data._formats import images as _images
from splitbench.data._formats import npz as _npz

_LAYOUT = _npz.Layout("attributes", "attributes", "attribute_names", extras=("identity",))
_ATTRIBUTES, _IDENTITY, _PARTITION = "list_attr_celeba.txt", "identity_CelebA.txt", "list_eval_partition.txt"


@dataclass(frozen=True)
class CelebA(Data):
    """Faces of celebrities with 40 binary attributes and, as an extra, the person's identity.

    Liu et al., "Deep learning face attributes in the wild", 2015. https://arxiv.org/abs/1411.7766
    The aligned images, cut to the central 178 x 178 pixels; the official training and test partitions.
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("celeba.npz", f"celeba/{_ATTRIBUTES}", f"celeba/Anno/{_ATTRIBUTES}")
    instructions: ClassVar[str] = (
        "CelebA is handed out by its authors, for research, through Google Drive: "
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html. "
        f"Put {_ATTRIBUTES}, {_IDENTITY}, {_PARTITION} and the unpacked img_align_celeba into {{folder}}/celeba."
    )

    size: Annotated[int, Ge(8)] = 64  # height and width of an image in pixels

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("celeba", self.files, folders)
        if path.suffix == ".npz":
            data = _npz.read(path, "celeba", _LAYOUT)
            train, test = (replace(part, x=_images.resize(part.x, self.size)) for part in (data.train, data.test))
            return replace(data, train=train, test=test)
        return self._official(path.parents[1] if path.parent.name == "Anno" else path.parent)

    def _official(self, root: Path) -> DataSet:
        table = _table(root, _ATTRIBUTES, header=True)
        names = tuple(map(str, table.columns))
        for file in (_IDENTITY, _PARTITION):
            beside = _table(root, file, header=False)
            if missing := len(table.index.difference(beside.index)):
                raise SplitbenchError(f"{root}: {file} lacks {missing} of the images that {_ATTRIBUTES} names")
            table[file] = beside.iloc[:, 0]
        # 1 is the validation partition, which nothing here needs.
        train, test = (self._samples(root, table[table[_PARTITION] == part], list(names)) for part in (0, 2))
        return DataSet("celeba", train, test, len(names), "attributes", names)

    def _samples(self, root: Path, rows: pd.DataFrame, names: list[str]) -> Samples:
        if rows.empty:
            raise SplitbenchError(f"{root}: {_PARTITION} leaves the training (0) or the test (2) partition empty")
        images = _place(root, "img_align_celeba")
        x = _images.decode([images / str(name) for name in rows.index], (self.size, self.size), crop=178)
        # The file says -1 for absent.
        y = checks.attributes((rows[names].to_numpy() + 1) / 2, f"{root}: {_ATTRIBUTES}", len(x))
        return Samples(x, y, {"identity": checks.extra(rows[_IDENTITY].to_numpy(), f"{root}: {_IDENTITY}", len(x))})


def _place(root: Path, name: str) -> Path:
    """Beside the others, or in the folders of the authors' drive."""
    for folder in ("", "Anno", "Eval", "Img"):
        if (root / folder / name).exists():
            return root / folder / name
    raise SplitbenchError(f"{root} has no {name}, which goes with {_ATTRIBUTES}")


def _table(root: Path, file: str, *, header: bool) -> pd.DataFrame:
    """Whole numbers by the name of the image; the attributes have their count and their names above them."""
    path = _place(root, file)
    try:
        if header:
            # The names are one fewer than the columns, which makes the first column the index.
            table = pd.read_csv(path, sep=r"\s+", skiprows=1)
        else:
            table = pd.read_csv(path, sep=r"\s+", header=None, index_col=0)
        table = table.astype("int64")
    except (ValueError, OSError) as error:
        raise SplitbenchError(f"{path} is not what CelebA publishes: {error}") from error
    if table.shape[1] != (40 if header else 1) or not table.index.is_unique:
        raise SplitbenchError(f"{path} is not what CelebA publishes: {table.shape[1]} columns, {len(table)} rows")
    return table
