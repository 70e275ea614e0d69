"""Images cut into a grid of equal patches, and put together again."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from splitbench.core.errors import SplitbenchError


def patched(x: Tensor, rows: int, columns: int) -> Tensor:
    """Images (N, C, H, W) as patches (N, rows * columns, C * p * q), places row by row."""
    count, channels, height, width = x.shape
    _whole(height, width, rows, columns)
    p, q = height // rows, width // columns
    tiles = x.reshape(count, channels, rows, p, columns, q).permute(0, 2, 4, 1, 3, 5)
    return tiles.reshape(count, rows * columns, channels * p * q)


def unpatched(tokens: Tensor, shape: Sequence[int], rows: int, columns: int) -> Tensor:
    """The inverse: patches (N, L, C * p * q) as images of `shape` (C, H, W)."""
    channels, height, width = shape
    _whole(height, width, rows, columns)
    p, q = height // rows, width // columns
    tiles = tokens.reshape(len(tokens), rows, columns, channels, p, q).permute(0, 3, 1, 4, 2, 5)
    return tiles.reshape(len(tokens), channels, height, width)


def _whole(height: int, width: int, rows: int, columns: int) -> None:
    if height % rows or width % columns:
        raise SplitbenchError(f"images of {height} x {width} pixels cannot be cut into {rows} x {columns} patches")
