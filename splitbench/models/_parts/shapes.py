"""What an image network must know of its input before it is built."""

from __future__ import annotations

from splitbench.core.errors import SplitbenchError


def image(shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
    """Channels, height and width, if that is what the data has."""
    if len(shape) != 3:
        raise SplitbenchError(
            f"{name} takes images (channels, height, width), but a sample of this data has shape {shape}; "
            "choose a data set of images, or a text model such as roberta_small"
        )
    return shape[0], shape[1], shape[2]


def whole_patches(height: int, width: int, patch: int, name: str) -> None:
    """Patches that leave a margin would drop pixels without a word."""
    if height % patch or width % patch:
        fitting = [p for p in range(1, min(height, width) + 1) if height % p == 0 and width % p == 0]
        raise SplitbenchError(
            f"{name}: patches of {patch} do not tile {height} x {width} pixels; "
            f"set patch to one of {', '.join(map(str, fitting))}"
        )
