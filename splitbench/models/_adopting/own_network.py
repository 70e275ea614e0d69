"""The user's own network."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank, on_grid, tiling
from splitbench.models._adopting.adopted import Adopted


@dataclass(frozen=True)
class OwnNetwork(Adopted):
    """Made by calling a class or function with those of `classes`, `channels`, `size`, `shape`, `fields` that it takes.

    A network of tokens may say how they lie over an image: `prefix_tokens`, how many come before the first that stands
    for a place, and `grid`, the rows and columns of those that do. Where it says nothing, tokens that tile the image
    exactly are taken to lie so. A network of tables whose smashed data are (fields, width) has nothing to say.
    """

    maker: ClassVar[Callable[..., Any]]
    spec: ClassVar[str]  # as the user wrote it

    def usual(self) -> tuple[int, ...]:
        return {"text": (128,), "tabular": (39,)}.get(self.modality, (3, 32, 32))

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        if len(smashed) != 2:
            return by_rank(smashed)
        if self.modality == "tabular":
            return Layout("fields", smashed) if smashed[0] == sample[0] else by_rank(smashed)
        prefix, grid = getattr(network, "prefix_tokens", 0), getattr(network, "grid", None)
        if not isinstance(prefix, int) or prefix < 0:
            raise SplitbenchError(f"{self.spec}: prefix_tokens must be a whole number of at least 0, got {prefix!r}")
        if grid is not None and not _is_pair(grid):
            raise SplitbenchError(f"{self.spec}: grid must be the rows and columns of the tokens, got {grid!r}")
        if grid is None:
            grid = tiling(smashed[0] - prefix, sample) or tiling(smashed[0], sample)
        if grid is not None:
            return on_grid(smashed, (grid[0], grid[1]), prefix)
        return Layout("tokens", smashed, min(prefix, smashed[0]))

    def make(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        sides = shape[1:] if len(shape) == 3 else shape
        offered = {
            "classes": classes,
            "channels": shape[0] if len(shape) == 3 else 1,
            "size": sides[0] if len(set(sides)) == 1 else sides,
            "shape": shape,
            "fields": tuple(fields),
        }
        taken = inspect.signature(self.maker).parameters
        free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        unknown = [
            p.name for p in taken.values() if p.default is p.empty and p.kind not in free and p.name not in offered
        ]
        if unknown:
            raise SplitbenchError(
                f"{self.spec} wants {', '.join(unknown)}, which nothing provides; it is called with those of "
                f"{', '.join(offered)} that it takes, so give the others defaults"
            )
        network = self.maker(**{name: value for name, value in offered.items() if name in taken})
        if not isinstance(network, nn.Module):
            raise SplitbenchError(f"{self.spec} returned a {type(network).__name__}, not an nn.Module")
        return network


def _is_pair(grid: Any) -> bool:
    return isinstance(grid, (tuple, list)) and len(grid) == 2 and all(isinstance(n, int) and n > 0 for n in grid)
