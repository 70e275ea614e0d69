from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from splitbench.core.data import Data, DataSet, Modality
from splitbench.data._download.source import Source
from splitbench.data._folders import locate
from splitbench.data._formats import idx as _idx
from splitbench.data._formats import npz as _npz


@dataclass(frozen=True)
class Mnist(Data):
    """Handwritten digits, 28x28 grey, 10 classes.

    LeCun et al., "Gradient-based learning applied to document recognition", 1998.
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("mnist.npz", *_idx.places("mnist", "MNIST/raw"))
    sources: ClassVar[tuple[Source, ...]] = _idx.sources(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "mnist",
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    )
    names: ClassVar[tuple[str, ...]] = tuple("0123456789")

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("mnist", self.files, folders)
        if path.suffix == ".npz":
            return _npz.read(path, "mnist", _npz.Layout(known=self.names, image=(28, 28, 1)))
        return _idx.dataset("mnist", path, self.names)
