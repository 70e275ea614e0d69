from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from annotated_types import Ge
from torch import Generator, Tensor

from splitbench.core.defense import Context, Defense
from splitbench.core.imagined import Imagined, Rebuilt
from splitbench.core.member import Batch
from splitbench.core.message import Message
from splitbench.core.threat import Knowledge
from splitbench.defenses._images.refusal import images_only
from splitbench.defenses._noise.drawn import normal_like
from splitbench.defenses._noise.noise_level import noise_level

_INSTEAD = "ids of words and categories cannot be noised: take at: smashed"


@dataclass(frozen=True)
class Gaussian(Defense):
    """Add Gaussian noise to the smashed data before it leaves the client, or to the images before the first layer.

    The baseline GN of Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", 2022,
    with N(0, 4) there, so sigma=2 if the 4 is a variance; on Criteo N(0, .001) and N(0, 1). Where the noise goes is not
    said: the smashed data is our reading, the images the other one.
    Claims no differential privacy: nothing bounds the smashed data's sensitivity (`dp_gaussian` bounds it).
    """

    sigma: Annotated[float, Ge(0)] = 0.5  # standard deviation of the noise, in units of what it is added to
    at: Literal["smashed", "inputs"] = "smashed"  # what it is added to: smashed data, or images (values in 0 to 1)

    def bind(self, context: Context) -> Gaussian:
        if self.at == "inputs":
            images_only("gaussian with at: inputs", context.sample, _INSTEAD)
        return super().bind(context)

    @property
    def disguises(self) -> bool:
        return self.at == "smashed"

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        """An adversary that knows of noise, but not how much, reads its strength off the smashed data."""
        if rung == "family" and self.disguises:
            return Rebuilt(Gaussian(noise_level(observed)))
        return super().imagined(rung, observed)

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        if self.at != "inputs":
            return batch
        images_only("gaussian with at: inputs", batch.x.shape[1:], _INSTEAD)
        return replace(batch, x=self._noisy(batch.x, generator))

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if self.at != "smashed" or message.kind != "smashed":
            return message
        return message.carrying(self._noisy(message.tensor, generator)) if self.sigma else message

    def _noisy(self, clean: Tensor, generator: Generator | None) -> Tensor:
        return clean + normal_like(clean, generator).mul_(self.sigma) if self.sigma else clean
