"""Looking smashed data up among those of public samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.core.attack import Attack
from splitbench.core.layout import Layout
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Lookup(Attack):
    """Ask the client for the smashed data of public texts or rows, and guess of each target what lies nearest.

    Nearest neighbours in the manner of Song and Raghunathan, "Information Leakage in Embedding Models", CCS 2020.
    https://arxiv.org/abs/2004.00053
    Departs from the paper: place by place where the smashed data have places (the tokens of a text, the fields of
    a table), each compared with public values at any place for tokens and at the same place for fields; else sample by
    sample.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, queries=1)
    modality: ClassVar[str | tuple[str, ...] | None] = ("text", "tabular")
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"token_accuracy": {"*": 0.5}, "field_accuracy": {"*": 0.5}}
    )

    batch: Annotated[int, Ge(1)] = 64  # public samples asked for at a time

    def run(self, view: View, generator: Generator) -> Recovered:
        assert view.auxiliary is not None
        assert view.query is not None
        x = view.auxiliary.x[: view.query.left]
        sent = torch.cat([view.merge(view.query(part)) for part in torch.split(x, self.batch)])
        layout = view.layout or Layout("vector", tuple(sent.shape[1:]))
        if layout.kind in ("tokens", "fields") and layout.places == x.shape[1]:
            found = _anywhere if layout.kind == "tokens" else _same_place
            return Recovered(inputs=found(view.merged[:, layout.prefix :], sent[:, layout.prefix :], x))
        nearest = torch.cdist(view.merged.flatten(1), sent.flatten(1)).argmin(1)
        return Recovered(inputs=x[nearest])


def _anywhere(targets: Tensor, sent: Tensor, x: Tensor) -> Tensor:
    """A token's features tell it wherever it stands: one prototype for each token that public texts have."""
    tokens, which = torch.unique(x.flatten(), return_inverse=True)
    sums = sent.new_zeros(len(tokens), sent.shape[-1]).index_add_(0, which, sent.flatten(0, 1))
    means = sums / torch.bincount(which, minlength=len(tokens))[:, None]
    flat = targets.flatten(0, 1)
    nearest = torch.cat([torch.cdist(part, means).argmin(1) for part in torch.split(flat, 4096)])
    found: Tensor = tokens[nearest].view(targets.shape[:2])
    return found


def _same_place(targets: Tensor, sent: Tensor, x: Tensor) -> Tensor:
    distances = torch.cdist(targets.transpose(0, 1), sent.transpose(0, 1))  # (F, N, M)
    nearest = distances.argmin(2)  # (F, N)
    return torch.gather(x, 0, nearest.T)
