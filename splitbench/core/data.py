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
Modality = Literal["image", "text", "tabular"]


@dataclass(frozen=True)
class Field:
    """One column of a table. Categories are ids from 0, stored as floats like everything else in the row."""

    name: str
    categories: int = 0  # 0: a number, standardised


@dataclass(frozen=True)
class Samples:
    """Inputs, labels and what else is known of the same samples.

    Images are uint8 (N, C, H, W), texts int64 token ids (N, L), tables float32 (N, F). Labels are int64: (N,) classes,
    or (N, A) attributes, each 0 or 1.
    """

    x: Tensor
    y: Tensor
    extras: dict[str, Tensor] = field(default_factory=dict)  # identities, genders, ...

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: Tensor) -> Samples:
        """Some of the samples, by number or by a mask, with their labels and extras."""
        return Samples(self.x[rows], self.y[rows], {name: values[rows] for name, values in self.extras.items()})


@dataclass(frozen=True)
class DataSet:
    name: str
    train: Samples
    test: Samples
    classes: int
    task: Task = "classes"
    names: tuple[str, ...] = ()  # of the classes or attributes
    modality: Modality = "image"
    fields: tuple[Field, ...] = ()  # the columns of a table

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.train.x.shape[1:])

    @functools.cached_property
    def digest(self) -> str:
        """Of every byte that training, an attack or a metric could read."""
        digest = hashlib.sha256()
        columns = [(column.name, column.categories) for column in self.fields]
        digest.update(repr((self.modality, self.task, self.classes, columns)).encode())
        for samples in (self.train, self.test):
            extras = sorted(samples.extras.items())
            for name, tensor in (("x", samples.x), ("y", samples.y), *extras):
                digest.update(repr((name, tuple(tensor.shape), str(tensor.dtype))).encode())
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


class Data(Component):
    """A source of data. `load` finds the files under one of the folders given, first come first served."""

    modality: ClassVar[Modality] = "image"
    files: ClassVar[tuple[str, ...]] = ()  # any one of these, relative to a data folder

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        raise NotImplementedError


def as_input(x: Tensor) -> Tensor:
    """What a network is given: images as float32 in [0, 1]; token ids and tables as they are."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x
