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
class FashionMnist(Data):
    """Articles of clothing, 28x28 grey, 10 classes.

    Xiao, Rasul and Vollgraf, "Fashion-MNIST", 2017. https://arxiv.org/abs/1708.07747
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("fashion_mnist.npz", *_idx.places("fashion_mnist", "FashionMNIST/raw"))
    sources: ClassVar[tuple[Source, ...]] = _idx.sources(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "fashion_mnist",
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    )
    names: ClassVar[tuple[str, ...]] = (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    )

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("fashion_mnist", self.files, folders)
        if path.suffix == ".npz":
            return _npz.read(path, "fashion_mnist", _npz.Layout(known=self.names, image=(28, 28, 1)))
        return _idx.dataset("fashion_mnist", path, self.names)
