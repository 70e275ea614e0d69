"""An embedding for every field of a table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError


class Fields(nn.Module):
    """Rows (N, F) to embeddings (N, F, D)."""

    def __init__(self, fields: Sequence[Field], width: int, spread: float | None = None) -> None:
        """All numbers are drawn with the standard deviation `spread` if it is given."""
        super().__init__()
        self.described = tuple(fields)
        # A number times a vector plus another vector is a linear layer of one input.
        self.embeddings = nn.ModuleList(
            nn.Embedding(field.categories, width) if field.categories else nn.Linear(1, width) for field in fields
        )
        for field, embedding in zip(fields, self.embeddings, strict=True):
            if spread is not None:
                for parameter in embedding.parameters():
                    nn.init.normal_(parameter, std=spread)
            elif field.categories:
                # As large as the embedding of a number of the same field would be.
                nn.init.normal_(embedding.weight, std=0.5)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != len(self.described):
            raise SplitbenchError(f"rows of {x.shape[1]} columns for a network of {len(self.described)} fields")
        columns = [
            embedding(self._ids(x[:, i], field)) if field.categories else embedding(x[:, i : i + 1])
            for i, (field, embedding) in enumerate(zip(self.described, self.embeddings, strict=True))
        ]
        return torch.stack(columns, 1)

    def _ids(self, column: Tensor, field: Field) -> Tensor:
        ids = column.long()
        if not ids.is_meta and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < field.categories:
            raise SplitbenchError(
                f"field '{field.name}' holds the category {int(ids.min())} or {int(ids.max())}; "
                f"the network knows 0 to {field.categories - 1}"
            )
        return ids
