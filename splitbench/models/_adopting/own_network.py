"""The user's own network."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.models._adopting.adopted import Adopted


@dataclass(frozen=True)
class OwnNetwork(Adopted):
    """Made by calling a class or function with those of `classes`, `channels`, `size` and `shape` that it takes."""

    maker: ClassVar[Callable[..., Any]]
    spec: ClassVar[str]  # as the user wrote it

    def usual(self) -> tuple[int, ...]:
        return (128,) if self.modality == "text" else (3, 32, 32)

    def make(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        sides = shape[1:] if len(shape) == 3 else shape
        offered = {
            "classes": classes,
            "channels": shape[0] if len(shape) == 3 else 1,
            "size": sides[0] if len(set(sides)) == 1 else sides,
            "shape": shape,
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
