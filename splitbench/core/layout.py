"""How smashed data lie: what its axes mean, and which part of the input each place stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from splitbench.core.errors import SplitbenchError

Kind = Literal["maps", "tokens", "fields", "vector"]

_RANKS: dict[Kind, int] = {"maps": 3, "tokens": 2, "fields": 2}


@dataclass(frozen=True)
class Layout:
    """One sample's smashed data: maps (C, H, W), tokens (L, D), fields (F, D) or a vector, which has no places."""

    kind: Kind
    shape: tuple[int, ...]
    prefix: int = 0  # tokens before the first that stands for a place: class token, distillation token, registers
    grid: tuple[int, int] | None = None  # rows and columns of an image's tokens

    def __post_init__(self) -> None:
        if self.kind in _RANKS and len(self.shape) != _RANKS[self.kind]:
            raise SplitbenchError(f"{self.kind} have {_RANKS[self.kind]} axes; the shape {self.shape} does not fit")
        if self.kind != "tokens" and (self.prefix or self.grid):
            raise SplitbenchError(f"only tokens have a prefix and a grid, {self.kind} do not")
        if self.kind == "tokens" and not 0 <= self.prefix <= self.shape[0]:
            raise SplitbenchError(f"a prefix of {self.prefix} does not fit {self.shape[0]} tokens")
        if self.grid is not None and math.prod(self.grid) != self.places:
            raise SplitbenchError(f"a grid of {self.grid[0]} x {self.grid[1]} does not hold {self.places} tokens")

    @property
    def places(self) -> int:
        """How many parts of the input have values of their own: pixels, tokens without the prefix, fields, or one."""
        if self.kind == "maps":
            return self.shape[1] * self.shape[2]
        return self.shape[0] - self.prefix if self.kind in ("tokens", "fields") else 1

    @property
    def channels(self) -> int:
        """How many values a place has."""
        if self.kind == "maps":
            return self.shape[0]
        return self.shape[1] if self.kind in ("tokens", "fields") else math.prod(self.shape)

    @property
    def plane(self) -> tuple[int, int] | None:
        """Rows and columns over the image: those of maps, or the grid of tokens; None if nothing lies over it."""
        return (self.shape[1], self.shape[2]) if self.kind == "maps" else self.grid


def by_rank(smashed: Sequence[int]) -> Layout:
    """What the number of axes says: three are maps, two tokens without prefix or grid, all else a vector."""
    kinds: dict[int, Kind] = {3: "maps", 2: "tokens"}
    return Layout(kinds.get(len(smashed), "vector"), tuple(smashed))


def on_grid(smashed: Sequence[int], grid: tuple[int, int], prefix: int = 0) -> Layout:
    """Tokens of an image cut into `grid`, after or before the prefix is put in front; anything else by its rank."""
    if len(smashed) == 2:
        for ahead in (prefix, 0):
            if smashed[0] - ahead == math.prod(grid):
                return Layout("tokens", tuple(smashed), ahead, grid)
    return by_rank(smashed)


def tiling(places: int, sample: Sequence[int]) -> tuple[int, int] | None:
    """Rows and columns of equal square patches that cover the image exactly; None if so many cannot."""
    if len(sample) != 3 or places < 1:
        return None
    height, width = sample[1], sample[2]
    rows = math.isqrt(places * height // width)
    columns = places // max(rows, 1)
    exact = rows * columns == places and rows * width == columns * height and height % max(rows, 1) == 0
    return (rows, columns) if exact else None
