"""The black-box attack of the patch shuffling paper on tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Generator, Tensor

from splitbench.attacks._steps.descent import descend, draw, shuffled
from splitbench.attacks._token_decoder.places import Places
from splitbench.attacks._token_decoder.rows import RowDecoder
from splitbench.core.attack import Attack
from splitbench.core.data import Field
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.progress import steps
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class FieldDecoder(Attack):
    """Train a transformer from smashed data to the rows of a table, on pairs asked of the client.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, equation 3 and
    table III: a vector-wise part, attention among the fields as in DIFM (Lu et al., IJCAI 2020,
    https://doi.org/10.24963/ijcai.2020/434), and a perceptron at its end.
    Departs from the paper: it recovers numbers by squared error and categories by cross-entropy, where the paper, whose
    MSE is over both, does not say how ids become numbers; trained on public rows, at a larger rate.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1, queries=1)
    modality: ClassVar[str | tuple[str, ...] | None] = "tabular"
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"field_accuracy": {"*": 0.5}})
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[int, Ge(0)] = 400  # of training
    batch: Annotated[int, Ge(1)] = 128  # rows a step
    lr: Annotated[float, Gt(0)] = 3e-3  # of AdamW, falling as a cosine after a short rise
    width: Annotated[int, Ge(1)] = 64  # of a token
    blocks: Annotated[int, Ge(0)] = 2  # of the vector-wise part
    heads: Annotated[int, Ge(1)] = 4  # of attention; must divide the width

    def run(self, view: View, generator: Generator) -> Recovered:
        if self.width % self.heads:
            raise SplitbenchError(f"field_decoder: width={self.width} is not a multiple of heads={self.heads}")
        assert view.auxiliary is not None
        assert view.query is not None
        x = draw(view.auxiliary.x, view.query.left, generator)
        # All at once: where a defense mixes a batch, the client makes the batches.
        z = view.merge(view.query(x))
        if not (z.isfinite().all() and view.merged.isfinite().all()):
            raise CellError("field_decoder: the smashed data are not finite, so there is nothing to learn from")
        fields = view.fields or tuple(Field(f"field{i}") for i in range(view.shape[0]))
        with seeded(int(torch.randint(2**62, (), generator=generator)), "field_decoder"):
            decoder = RowDecoder(Places.of_view(view), fields, self.width, self.blocks, self.heads).to(x.device)
        decoder.standardise(z)
        self._train(decoder, z, x, generator)
        with torch.no_grad():
            return Recovered(inputs=torch.cat([decoder.rows(part) for part in torch.split(view.merged, 1024)]))

    def _train(self, decoder: RowDecoder, z: Tensor, x: Tensor, generator: Generator) -> None:
        optimizer = torch.optim.AdamW(decoder.parameters(), self.lr)
        warm = max(1, self.steps // 20)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm, (1 + math.cos(math.pi * step / max(1, self.steps))) / 2)
        )
        batches = shuffled(x, self.batch, generator)
        for _ in (bar := steps("decoder", self.steps)):
            rows = next(batches)
            loss = decoder.loss(z[rows], x[rows])
            descend(optimizer, loss)
            schedule.step()
            bar.saw("loss", loss)
