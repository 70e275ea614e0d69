"""Data as everything else sees it."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from splitbench.core.component import Component

Task = Literal["classes", "attributes"]


@dataclass(frozen=True)
class Samples:
    """Images as uint8 (N, C, H, W) or token ids as int64 (N, L); labels as int64 (N,), or 0/1 (N, A) attributes."""

    x: Tensor
    y: Tensor
    extras: dict[str, Tensor] = field(default_factory=dict)  # identities, genders, ...

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class DataSet:
    name: str
    train: Samples
    test: Samples
    classes: int
    task: Task = "classes"
    names: tuple[str, ...] = ()  # of the classes or attributes

    @property
    def modality(self) -> str:
        return "image" if self.train.x.dtype == torch.uint8 else "text"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @functools.cached_property
    def digest(self) -> str:
        """Of every byte that training or an attack could read."""
        digest = hashlib.sha256()
        for samples in (self.train, self.test):
            for tensor in (samples.x, samples.y):
                digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


class Data(Component):
    """A source of data. `load` finds the files under one of the folders given, first come first served."""

    files: ClassVar[tuple[str, ...]] = ()  # any one of these, relative to a data folder

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        raise NotImplementedError


def as_input(x: Tensor) -> Tensor:
    """What a network is given: images as float32 in [0, 1], tokens as they are."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x
