from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.threat import Knowledge
from splitbench.core.wire import Message
from splitbench.defenses._noise.noise_level import noise_level


@dataclass(frozen=True)
class Gaussian(Defense):
    """Add Gaussian noise to the smashed data before it leaves the client.

    The baseline GN of Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", 2022,
    with N(0, 4) there, so sigma=2.
    Claims no differential privacy: nothing bounds the smashed data's sensitivity.
    """

    sigma: Annotated[float, Ge(0)] = 0.5  # standard deviation of the noise, in units of the smashed data

    def known(self, rung: Knowledge, observed: Tensor) -> Defense:
        """Who knows that there is noise, but not how much, reads its strength off the smashed data."""
        return replace(self, sigma=noise_level(observed)) if rung == "family" else super().known(rung, observed)

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if message.kind != "smashed" or self.sigma == 0:
            return message
        z = message.tensor
        # Drawn where the generator lives, so that the noise is the same on every device.
        device = generator.device if generator is not None else z.device
        noise = torch.randn(z.shape, dtype=z.dtype, device=device, generator=generator)
        return message.carrying(z + noise.to(z.device).mul_(self.sigma))
