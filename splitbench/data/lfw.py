from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._download.source import Source
from splitbench.data._folders import locate
from splitbench.data._formats import holdout as _holdout
from splitbench.data._formats import images as _images
from splitbench.data._formats import npz as _npz

_LAYOUT = _npz.Layout("identity", names="identity_names", extras=("gender",))


@dataclass(frozen=True)
class Lfw(Data):
    """Faces of public figures; the classes are the people, an extra is their gender (-1 where unknown).

    Huang et al., "Labeled Faces in the Wild", 2007.
    Of the folders, the central 125 x 125 pixels of every image; the last fifth of each person's images by name
    are the test split, for the authors' own splits are of pairs.
    """

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ("lfw.npz", "lfw", "lfw_funneled", "lfw-deepfunneled")
    sources: ClassVar[tuple[Source, ...]] = (
        Source(
            "https://ndownloader.figshare.com/files/5976018",
            "sha256:055f7d9c632d7370e6fb4afc7468d40f970c34a80d4c6f50ffec63f5a8d536c0",
            "lfw",
            "tar",
        ),
    )

    size: Annotated[int, Ge(8)] = 64  # height and width of an image in pixels
    minimum: Annotated[int, Ge(2)] = 20  # people with fewer images than this are left out

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("lfw", self.files, folders)
        return self._npz(path) if path.suffix == ".npz" else self._folders(path)

    def _npz(self, path: Path) -> DataSet:
        data = _npz.read(path, "lfw", _LAYOUT)
        counts = torch.bincount(torch.cat([data.train.y, data.test.y]), minlength=data.classes)
        keep = counts >= self.minimum
        if not keep.any():
            raise self._nobody(path, int(counts.max()))
        renumbered = keep.cumsum(0) - 1
        train, test = (self._kept(part, keep[part.y], renumbered) for part in (data.train, data.test))
        names = tuple(np.array(data.names)[keep.numpy()].tolist()) if data.names else ()
        return DataSet("lfw", train, test, int(keep.sum()), names=names)

    def _kept(self, part: Samples, rows: Tensor, renumbered: Tensor) -> Samples:
        some = part.take(rows)
        return Samples(_images.resize(some.x, self.size), renumbered[some.y], some.extras)

    def _folders(self, path: Path) -> DataSet:
        people = {person.name: sorted(person.glob("*.jpg")) for person in sorted(path.iterdir()) if person.is_dir()}
        kept = {name: images for name, images in people.items() if len(images) >= self.minimum}
        if not kept:
            raise self._nobody(path, max(map(len, people.values()), default=0))
        counts = [len(images) for images in kept.values()]
        y = np.repeat(np.arange(len(kept)), counts)
        held = _holdout.last_fifth(y)
        x = _images.decode([image for images in kept.values() for image in images], (self.size, self.size), crop=125)
        unknown = torch.full((len(y),), -1)
        train, test = (Samples(x[rows], torch.from_numpy(y[rows]), {"gender": unknown[rows]}) for rows in (~held, held))
        return DataSet("lfw", train, test, len(kept), names=tuple(kept))

    def _nobody(self, path: Path, most: int) -> SplitbenchError:
        return SplitbenchError(
            f"{path} has nobody with {self.minimum} images or more; the most anyone has is {most}. Lower `minimum`."
        )
