"""A network for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import nn

from splitbench.core.data import Field, Modality
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.model import Model
from splitbench.models._parts.fields import Fields


@dataclass(frozen=True)
class FieldMLP(Model):
    """An embedding of every field, then two hidden layers.

    Covington, Adams and Sargin, "Deep neural networks for YouTube recommendations", 2016, section 3.2.
    https://doi.org/10.1145/2959100.2959190
    A category looks its embedding up; a number is multiplied by a learned vector, and another is added. Cut at
    `fields`, what crosses has a row for every field, (F, D).
    Departs from the paper: its sizes, and numbers have embeddings too, so that fields can be shuffled.
    """

    modality: ClassVar[Modality] = "tabular"

    width: Annotated[int, Ge(1)] = 16  # of a field's embedding
    hidden: Annotated[int, Ge(1)] = 128  # of both hidden layers

    @property
    def cuts(self) -> Mapping[str, str]:
        return {"fields": "fields", "hidden1": "hidden1", "hidden2": "hidden2"}

    def build(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        """Without `fields`, all of them are numbers."""
        if len(shape) != 1 or len(fields) not in (0, shape[0]):
            raise SplitbenchError(
                f"field_mlp takes tables as one number per field, but a sample of this data has shape {shape}"
                f"{f' and {len(fields)} fields' if fields else ''}; choose a data set of tables such as criteo"
            )
        network = nn.Sequential()
        network.add_module("fields", Fields(fields or [Field(f"field{i}") for i in range(shape[0])], self.width))
        first = nn.Linear(shape[0] * self.width, self.hidden)
        network.add_module("hidden1", nn.Sequential(nn.Flatten(), first, nn.ReLU()))
        network.add_module("hidden2", nn.Sequential(nn.Linear(self.hidden, self.hidden), nn.ReLU()))
        network.add_module("head", nn.Linear(self.hidden, classes))
        return network

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        return Layout("fields", smashed) if len(smashed) == 2 else by_rank(smashed)
