"""What data must be before anything is trained on it. `where` names the file and the array."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from splitbench.core.errors import SplitbenchError

Array: TypeAlias = npt.NDArray[Any]


def images(x: Array, where: str, shape: tuple[int, ...] | None = None) -> Tensor:
    """uint8 images (N, H, W, C), of one shape if it is known, as (N, C, H, W)."""
    if x.dtype.kind == "f" and np.isnan(x).any():
        raise SplitbenchError(f"{where} holds NaN")
    if x.dtype != np.uint8:
        raise SplitbenchError(f"{where} is {x.dtype}; images are uint8, 0 to 255")
    if x.ndim != 4:
        hint = "; a grey image has a last axis of 1" if x.ndim == 3 else ""
        raise SplitbenchError(f"{where} has shape {x.shape}; images are (N, H, W, C){hint}")
    if len(x) == 0:
        raise SplitbenchError(f"{where} is empty")
    if shape is not None and x.shape[1:] != shape:
        raise SplitbenchError(f"{where} has images of {_by(x.shape[1:])}; expected {_by(shape)}")
    if x.shape[3] not in (1, 3) or 0 in x.shape:
        hint = "; move the channels with x.transpose(0, 2, 3, 1)" if x.shape[1] in (1, 3) else ""
        raise SplitbenchError(f"{where} has shape {x.shape}; images are (N, H, W, C) with 1 or 3 channels{hint}")
    planes = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return torch.from_numpy(planes if planes.flags.writeable else planes.copy())


def labels(y: Array, where: str, count: int, classes: int | None = None) -> Tensor:
    """Whole numbers (N,) from 0, below `classes` if that is known, as int64."""
    y = _whole(y, where, (count,), "one label an image")
    if y.min() < 0:
        raise SplitbenchError(f"{where} holds the label {y.min()}; labels begin at 0")
    if classes is not None and y.max() >= classes:
        raise SplitbenchError(
            f"{where} holds the label {y.max()}, but there are {classes} classes (0 to {classes - 1})"
        )
    return torch.from_numpy(y.astype(np.int64))


def attributes(y: Array, where: str, count: int, names: tuple[str, ...] = ()) -> Tensor:
    """Zeros and ones (N, A), as int64."""
    if y.ndim != 2 or y.shape[1] == 0:
        raise SplitbenchError(f"{where} has shape {y.shape}; attributes are (N, A)")
    y = _whole(y, where, (count, len(names) or y.shape[1]), "a row of attributes an image")
    wrong = (y != 0) & (y != 1)
    if wrong.any():
        raise SplitbenchError(f"{where} holds {y[wrong][0]}; attributes are 0 or 1")
    return torch.from_numpy(y.astype(np.int64))


def extra(values: Array, where: str, count: int) -> Tensor:
    """Whole numbers (N,); -1 stands for unknown."""
    return torch.from_numpy(_whole(values, where, (count,), "one number an image").astype(np.int64))


def _whole(y: Array, where: str, shape: tuple[int, ...], meaning: str) -> Array:
    if y.dtype.kind not in "iubf":
        raise SplitbenchError(f"{where} is {y.dtype}; expected whole numbers")
    if y.shape != shape:
        raise SplitbenchError(f"{where} has shape {y.shape}; expected {shape}, {meaning}")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise SplitbenchError(f"{where} holds NaN or infinity")
        if (y != np.floor(y)).any():
            raise SplitbenchError(f"{where} holds fractions; expected whole numbers")
    return y


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
