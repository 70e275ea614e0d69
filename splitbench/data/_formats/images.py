"""Decode image files into one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from splitbench.core.errors import SplitbenchError
from splitbench.core.progress import tell

_GREY = {"1", "L", "LA"}
_COLOUR = {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise SplitbenchError(f"{path} cannot be read as an image: {error}") from error


def survey(paths: Sequence[Path], *, same_size: bool) -> tuple[tuple[int, int], int]:
    """Height and width of the first image, and the channels that all need, from the headers alone."""

    def header(path: Path) -> tuple[tuple[int, int], str]:
        with _opened(path) as image:
            return (image.height, image.width), image.mode

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(header, paths))
    first, _ = found[0]
    for path, (size, mode) in zip(paths, found, strict=True):
        if mode not in _GREY | _COLOUR:
            raise SplitbenchError(f"{path} has pixels of kind '{mode}', which do not fit 8 bits a channel; convert it")
        if same_size and size != first:
            raise SplitbenchError(
                f"images differ in size: {paths[0]} is {first[1]}x{first[0]}, {path} is {size[1]}x{size[0]}. "
                "Set `size` to bring all of them to one."
            )
    return first, 1 if all(mode in _GREY for _, mode in found) else 3


def decode(paths: Sequence[Path], size: tuple[int, int], channels: int = 3, crop: int = 0) -> Tensor:
    """Images as uint8 (N, C, H, W), cut to the central square of `crop` pixels first if that is not 0."""
    height, width = size
    x = np.empty((len(paths), channels, height, width), np.uint8)

    def one(index: int) -> None:
        with _opened(paths[index]) as image:
            picture = image.convert("L" if channels == 1 else "RGB")
        if crop:
            side = min(crop, *picture.size)
            left, top = (picture.width - side) // 2, (picture.height - side) // 2
            picture = picture.crop((left, top, left + side, top + side))
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        x[index] = np.asarray(picture).reshape(height, width, channels).transpose(2, 0, 1)

    # Pillow lets go of the interpreter while it decodes, so threads do help.
    with ThreadPoolExecutor() as pool:
        for done, _ in enumerate(pool.map(one, range(len(paths)))):
            if done % 1000 == 0:
                tell("reading images", done, len(paths))
    tell("reading images", len(paths), len(paths))
    return torch.from_numpy(x)


def resize(x: Tensor, size: int) -> Tensor:
    """Square images of another size, as the decoder would have made them; unchanged if they have it already."""
    if tuple(x.shape[2:]) == (size, size):
        return x
    return F.interpolate(x, (size, size), mode="bilinear", antialias=True)
