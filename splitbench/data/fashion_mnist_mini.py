from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from splitbench.core.data import Data, DataSet, Modality
from splitbench.core.errors import SplitbenchError
from splitbench.data._folders import EMBEDDED, locate
from splitbench.data._formats import npz as _npz

_DIGEST = "27d77083916d81ebcf5b2ecce8c0929f1284d95e67d20c7c0350cf070b05c061"


@dataclass(frozen=True)
class FashionMnistMini(Data):
    """3,000 + 600 images of Fashion-MNIST, balanced, that ship with splitbench.

    The first 300 training and 60 test images of every class, in their original order.
    Xiao, Rasul and Vollgraf, "Fashion-MNIST", 2017. https://arxiv.org/abs/1708.07747
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("fashion_mnist_mini.npz",)

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("fashion_mnist_mini", self.files, (*folders, EMBEDDED), fetchable=False)
        if hashlib.sha256(path.read_bytes()).hexdigest() != _DIGEST:
            raise SplitbenchError(f"{path} is not the file that ships with splitbench; remove it or install again")
        return _npz.read(path, "fashion_mnist_mini", _npz.Layout(image=(28, 28, 1)))
