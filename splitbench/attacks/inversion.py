"""Inversion by a decoder trained on auxiliary data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Generator

from splitbench.attacks._alignment.matching import Matching, matched, smashed_by
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.training import Pairs, Training, Wanted, decoded, fitting_noise, trained_decoder
from splitbench.attacks._steps.descent import draw
from splitbench.core.attack import Attack
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class Inversion(Attack):
    """Train a decoder from smashed data back to images, on pairs asked of the client or made with a shadow of it.

    He et al., "Model Inversion Attacks Against Collaborative Inference", ACSAC 2019, the black-box attack if queries
    are granted, the query-free one if not. https://doi.org/10.1145/3359789.3359824
    Departs from the paper: the decoder corrects the best linear inverse, which it is given in closed form, and is
    chosen on auxiliary pairs kept aside. The shadow client matches the first two moments of the targets; the paper's
    way, through the server's layers with labels, is added with `shadow_labels`.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(auxiliary=1)
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"ssim": {"mnist": 0.9, "fashion_mnist": 0.85, "cifar10": 0.8, "*": 0.6}}
    )

    version: ClassVar[int | str] = 2  # 2: whole batches only, and an imagined defense is drawn anew at each step
    phases: ClassVar[tuple[str, ...]] = ("shadow_steps", "steps")

    steps: Annotated[int, Ge(0)] = 500  # of training the decoder; fewer are taken if the linear inverse is exact
    batch: Annotated[int, Ge(1)] = 32  # images a step
    lr: Annotated[float, Gt(0)] = 3e-3  # of the decoder, falling as a cosine after a short rise
    width: Annotated[int, Ge(1)] = 32  # channels of the decoder
    blocks: Annotated[int, Ge(0)] = 3  # residual blocks of the decoder
    structure: Annotated[float, Ge(0)] = 0.03  # weight of structural similarity beside squared error
    shadow_steps: Annotated[int, Ge(0)] = 600  # of training the shadow client, if no queries are granted
    shadow_batch: Annotated[int, Ge(2)] = 64  # images a step of the shadow client
    shadow_lr: Annotated[float, Gt(0)] = 3e-3  # of the shadow client
    shadow_labels: Annotated[float, Ge(0)] = 0.0  # weight of suiting the server's layers beside matching the targets
    shadow_noise: Annotated[float, Ge(0)] | None = None  # on the shadow's features; none given: as it fits

    @property
    def uses_public_labels(self) -> bool:
        return self.shadow_labels > 0

    def lacks(self, threat: ThreatModel) -> str | None:
        if threat.queries or threat.architecture:
            return threat.lacks(self.needs)
        return threat.lacks(ThreatModel(auxiliary=1)) or (
            "needs queries=1 or architecture=true but the threat model grants queries=0 and architecture=false"
        )

    def run(self, view: View, generator: Generator) -> Recovered:
        if reason := self.lacks(view.threat):
            raise SplitbenchError(f"inversion {reason}")
        seed = int(torch.randint(2**62, (), generator=generator))
        if not view.merged.isfinite().all():
            raise CellError("inversion: the smashed data are not finite, so there is nothing to learn from")
        with seeded(seed, "inversion"):
            pairs, noise = self._pairs(view, generator)
            if not pairs.z.isfinite().all():
                raise CellError("inversion: the smashed data are not finite, so there is nothing to learn from")
            how = Training(self.steps, self.batch, self.lr, self.width, self.blocks, self.structure, noise)
            decoder = trained_decoder(pairs, how, generator, "inversion", Wanted(view.merged))
        return Recovered(inputs=decoded(decoder, view.merged))

    def _pairs(self, view: View, generator: Generator) -> tuple[Pairs, float]:
        """Smashed data and the images they came from, and how much the former are to be blurred by noise."""
        assert view.auxiliary is not None
        x = view.auxiliary.x
        if view.query is not None:
            x = draw(x, view.query.left, generator)
            asked = torch.cat([view.merge(view.query(part)) for part in torch.split(x, 128)])
            return Pairs(asked, x, grid=Grid.of_view(view)), 0.0
        assert view.template is not None
        how = Matching(self.shadow_steps, self.shadow_batch, self.shadow_lr, self.shadow_labels)
        client = matched(view.template().to(x.device), view, how, generator)
        # Features before the defense, which is imagined anew each time they are looked at.
        pairs = Pairs(smashed_by(client, x), x, None, lambda z: view.imagine(z, generator), Grid.of_view(view))
        return pairs, fitting_noise(pairs, client, view.merged) if self.shadow_noise is None else self.shadow_noise
