"""A network that can be built for any data set, with the places where it can be cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import nn

from splitbench.core.component import Component
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.split import SplitModel, cut, same_network


class Model(Component):
    """Builds the uncut network; `cuts` maps the papers' words to submodules, in the order data flows."""

    modality: ClassVar[str] = "image"

    @property
    def cuts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The whole network for inputs of this shape, freshly initialised from torch's global generator."""
        raise NotImplementedError

    def split(self, network: nn.Module, places: tuple[str, ...]) -> SplitModel:
        """Cut after the named places (a name from `cuts`, or any submodule), owners alternating."""
        modules = dict(network.named_modules())
        for place in places:
            if place not in self.cuts and place not in modules:
                raise SplitbenchError(f"no cut named '{place}'{nearest(place, self.cuts)}")
        return same_network(cut(network, [self.cuts.get(place, place) for place in places]))
