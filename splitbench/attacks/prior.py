"""A floor: what is commonest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from splitbench.attacks._floors.floor import Blind, Floor
from splitbench.core.threat import ANY, ThreatModel


@dataclass(frozen=True)
class Prior(Floor):
    """A floor: guess, at each place of a text or a table, what public samples have there most often.

    Of a table's numbers the mean: they are standardised, and no value occurs often.
    """

    modality: ClassVar[str | tuple[str, ...] | None] = ("text", "tabular")
    needs: ClassVar[ThreatModel] = ThreatModel(party=ANY, auxiliary=1)

    def guess(self, blind: Blind) -> Tensor:
        assert blind.auxiliary is not None
        x = blind.auxiliary.x
        common = x.mode(0).values
        if blind.fields:
            numbers = torch.tensor([field.categories == 0 for field in blind.fields]).to(x.device)
            common = torch.where(numbers, x.mean(0), common)
        return common.expand(blind.count, *blind.shape).clone()
