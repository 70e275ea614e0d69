"""A network that can be built for any data set, with the places where it can be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import nn

from splitbench.core.component import Component
from splitbench.core.data import DataSet, Field, Modality
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.layout import Layout, by_rank
from splitbench.core.split import SplitModel, cut, same_network

_PLURAL = {"image": "images", "text": "texts", "tabular": "tables"}


class Model(Component):
    """Builds the uncut network; `cuts` maps the papers' words to submodules, in the order data flows."""

    modality: ClassVar[Modality] = "image"
    tokens: ClassVar[str] = ""  # the submodule after which the network first holds tokens, if it does

    @property
    def cuts(self) -> Mapping[str, str]:
        raise NotImplementedError

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """The whole network for inputs of this shape, freshly initialised from torch's global generator.

        A model of tables has a third argument, `fields: Sequence[Field] = ()`. Call `build_for` to build any model.
        """
        raise NotImplementedError

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        """What the axes mean of what crosses a cut of the uncut network; `smashed` and `sample` are without batch."""
        return by_rank(smashed)

    def split(self, network: nn.Module, places: tuple[str, ...]) -> SplitModel:
        """Cut after the named places (a name from `cuts`, or any submodule), owners alternating."""
        modules = dict(network.named_modules())
        for place in places:
            if place not in self.cuts and place not in modules:
                raise SplitbenchError(f"no cut named '{place}'{nearest(place, self.cuts)}")
        return same_network(cut(network, [self.cuts.get(place, place) for place in places]))


def build_for(model: Model, data: DataSet) -> nn.Module:
    """The network for a data set; refused if the model is for data of another kind."""
    if model.modality != data.modality:
        raise SplitbenchError(
            f"{_name(model)} takes {_PLURAL[model.modality]}, and '{data.name}' consists of {_PLURAL[data.modality]}; "
            f"choose a model for {_PLURAL[data.modality]}"
        )
    return build_network(model, data.shape, data.classes, data.fields)


def build_network(model: Model, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
    """The network for inputs of this shape; `fields` are the columns of a table and matter to models of tables only."""
    if model.modality != "tabular":
        return model.build(shape, classes)
    if len(shape) != 1 or len(fields) not in (0, shape[0]):
        what = f"and {len(fields)} fields are described" if fields else ""
        raise SplitbenchError(
            f"{_name(model)} takes tables (fields,), but a sample here has shape {shape} {what}".strip()
        )
    tabular: Any = model  # only models of tables take the third argument
    network: nn.Module = tabular.build(shape, classes, tuple(fields))
    return network


def _name(model: Model) -> str:
    return str(getattr(model, "spec", type(model).__name__))
