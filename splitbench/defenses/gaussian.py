from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.imagined import Imagined, Rebuilt
from splitbench.core.message import Message
from splitbench.core.threat import Knowledge
from splitbench.defenses._noise.drawn import normal_like
from splitbench.defenses._noise.noise_level import noise_level


@dataclass(frozen=True)
class Gaussian(Defense):
    """Add Gaussian noise to the smashed data before it leaves the client.

    The baseline GN of Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", 2022,
    with N(0, 4) there, so sigma=2.
    Claims no differential privacy: nothing bounds the smashed data's sensitivity.
    """

    sigma: Annotated[float, Ge(0)] = 0.5  # standard deviation of the noise, in units of the smashed data

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        """An adversary that knows of noise, but not how much, reads its strength off the smashed data."""
        return Rebuilt(Gaussian(noise_level(observed))) if rung == "family" else super().imagined(rung, observed)

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if message.kind != "smashed" or self.sigma == 0:
            return message
        z = message.tensor
        return message.carrying(z + normal_like(z, generator).mul_(self.sigma))
