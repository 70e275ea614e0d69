from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._download.source import Source
from splitbench.data._folders import locate
from splitbench.data._formats import images as _images
from splitbench.data._formats import npz as _npz


@dataclass(frozen=True)
class TinyImagenet(Data):
    """Photographs of ImageNet, 64x64 colour, 200 classes.

    Le and Yang, "Tiny ImageNet visual recognition challenge", 2015.
    The labelled validation images are the test split; the official test images have no labels.
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("tiny_imagenet.npz", "tiny-imagenet-200/train", "tiny_imagenet/train")
    sources: ClassVar[tuple[Source, ...]] = (
        Source(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            "tiny-imagenet-200",
            "zip",
        ),
    )

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("tiny_imagenet", self.files, folders)
        if path.suffix == ".npz":
            return _npz.read(path, "tiny_imagenet", _npz.Layout(image=(64, 64, 3)))
        root = path.parent
        wnids = {place.parent.name: label for label, place in enumerate(sorted(path.glob("*/images")))}
        train = [(image, wnids[image.parent.parent.name]) for image in sorted(path.glob("*/images/*.JPEG"))]
        if not train:
            raise SplitbenchError(f"{path} holds no <class>/images/*.JPEG")
        return DataSet(
            "tiny_imagenet",
            _samples(train),
            _samples(_annotated(root / "val", wnids)),
            classes=len(wnids),
            names=_words(root / "words.txt", wnids),
        )


def _samples(pairs: list[tuple[Path, int]]) -> Samples:
    paths, labels = zip(*pairs, strict=True)
    return Samples(_images.decode(paths, (64, 64)), torch.tensor(labels))


def _annotated(folder: Path, wnids: dict[str, int]) -> list[tuple[Path, int]]:
    """Lines of an image, its class and a box, between tabs."""
    path = folder / "val_annotations.txt"
    if not path.is_file():
        raise SplitbenchError(f"{path} is missing; it says which class each validation image belongs to")
    pairs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        image, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in wnids:
            raise SplitbenchError(f"{path}, line {number}: no class '{wnid}' among the training images")
        pairs.append((folder / "images" / image, wnids[wnid]))
    if not pairs:
        raise SplitbenchError(f"{path} is empty")
    return pairs


def _words(path: Path, wnids: dict[str, int]) -> tuple[str, ...]:
    """The classes in words where the file with them is there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    return tuple(words.get(wnid, wnid) for wnid in wnids)
