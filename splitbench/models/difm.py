"""A factorization machine that weighs its fields anew for every row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor, nn

from splitbench.core.data import Field, Modality
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.model import Model
from splitbench.models._parts.fields import Fields


@dataclass(frozen=True)
class DIFM(Model):
    """Dual input-aware factorization machine: each row multiplies its fields by factors before they interact.

    Lu et al., "A dual input-aware factorization machine for CTR prediction", 2020, section 3.
    https://doi.org/10.24963/ijcai.2020/434
    A field has an embedding and a weight. Its factor is the sum of a bit-wise one, of a perceptron on all embeddings,
    and a vector-wise one, of attention between embeddings; it multiplies both. Patch shuffling cuts before the
    prediction layer (its figure 8), at `edge`, and shuffles fields at the vector-wise part. Before that part, a field
    is a token that holds its embedding, its weight and its bit-wise factor, and shuffling gives it the vector-wise
    factor of another place; after it, shuffling costs nothing, since the prediction does not depend on the order.
    The paper does not say which; its accuracy falls by 0.03 points (table III).
    Departs from the paper: numbers have embeddings too, so that all fields are alike; with more than two classes, the
    sums of the factorization machine go through a linear layer. Sizes are the defaults of DeepCTR, the library.
    """

    modality: ClassVar[Modality] = "tabular"

    width: Annotated[int, Ge(1)] = 4  # of a field's embedding
    heads: Annotated[int, Ge(1)] = 8  # of the attention between fields
    head_width: Annotated[int, Ge(1)] = 8  # of what a head makes of a field
    hidden: tuple[Annotated[int, Ge(1)], ...] = (256, 128)  # widths of the layers of the bit-wise perceptron
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0  # after each of those layers
    shuffled: Literal["before", "after"] = "before"  # the vector-wise part; by a defense that shuffles fields

    @property
    def tokens(self) -> str:  # type: ignore[override]
        return "bitwise" if self.shuffled == "before" else "vectorwise"

    @property
    def cuts(self) -> Mapping[str, str]:
        return {"fields": "fields", "bitwise": "bitwise", "edge": "vectorwise"}

    def build(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        """Without `fields`, all of them are numbers."""
        if len(shape) != 1 or len(fields) not in (0, shape[0]):
            raise SplitbenchError(
                f"difm takes tables as one number per field, but a sample of this data has shape {shape}"
                f"{f' and {len(fields)} fields' if fields else ''}; choose a data set of tables such as criteo"
            )
        count = shape[0]
        described = fields or [Field(f"field{i}") for i in range(count)]
        return nn.Sequential(
            OrderedDict(
                # Many products are added up: embeddings begin small, so that the first logits are near 0.
                fields=Fields(described, self.width + 1, spread=0.1),
                bitwise=BitWise(count, self.width, self.hidden, self.dropout),
                vectorwise=VectorWise(count, self.width, self.heads, self.head_width),
                sums=Sums(),
                head=Click() if classes == 2 else nn.Linear(self.width + 1, classes),
            )
        )

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        return Layout("fields", smashed) if len(smashed) == 2 else by_rank(smashed)


class BitWise(nn.Module):
    """Embeddings and weights (N, F, D + 1) to (N, F, D + 2): beside them, each field's factor by a perceptron."""

    def __init__(self, count: int, width: int, hidden: Sequence[int], dropout: float) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = count * width
        for after in hidden:
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
            before = after
        self.perceptron = nn.Sequential(*layers)
        self.factor = nn.Linear(before, count, bias=False)

    def forward(self, z: Tensor) -> Tensor:
        factor = self.factor(self.perceptron(z[..., :-1].flatten(1)))
        return torch.cat([z, factor.unsqueeze(-1)], -1)


class VectorWise(nn.Module):
    """(N, F, D + 2) to (N, F, D + 1): embeddings and weights times their factors, to which attention adds its own.

    The factor that attention adds is for a place, whatever field is there; that of the perceptron came with the field.
    """

    def __init__(self, count: int, width: int, heads: int, head_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries, self.keys, self.values, self.residual = (
            nn.Linear(width, heads * head_width, bias=False) for _ in range(4)
        )
        self.factor = nn.Linear(count * heads * head_width, count, bias=False)

    def forward(self, z: Tensor) -> Tensor:
        fields, factor = z[..., :-1], z[..., -1]
        embeddings = fields[..., :-1]
        projections = (self.queries, self.keys, self.values)
        q, k, v = (layer(embeddings).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in projections)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (N, F, heads * head_width)
        attended = F.relu(mixed + self.residual(embeddings))
        factor = factor + self.factor(attended.flatten(1))
        scaled: Tensor = fields * factor.unsqueeze(-1)
        return scaled


class Sums(nn.Module):
    """What a factorization machine adds up, in any order of the fields: (N, F, D + 1) to (N, D + 1).

    Rendle, "Factorization machines", 2010, lemma 3.1. https://doi.org/10.1109/ICDM.2010.127
    """

    def forward(self, z: Tensor) -> Tensor:
        embeddings, weights = z[..., :-1], z[..., -1:]
        pairs = (embeddings.sum(1).square() - embeddings.square().sum(1)) / 2  # of all pairs of different fields
        return torch.cat([pairs, weights.sum(1)], -1)


class Click(nn.Module):
    """The sums and a bias as the logit of the second of two classes; that of the first is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, sums: Tensor) -> Tensor:
        logit = sums.sum(1) + self.bias
        return torch.stack([torch.zeros_like(logit), logit], 1)
