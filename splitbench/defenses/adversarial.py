from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt
from torch import Tensor

from splitbench.core.defense import Context, Defense
from splitbench.core.errors import CellError
from splitbench.core.layout import by_rank
from splitbench.core.randomness import seeded
from splitbench.defenses._adversary.decoder import Decoder
from splitbench.defenses._adversary.simulated import Simulated
from splitbench.defenses._images.refusal import images_only

_INSTEAD = "take nopeek, which takes any input"


@dataclass(frozen=True)
class Adversarial(Defense):
    """Learn against a simulated attacker that each client trains for itself to reconstruct its inputs.

    Xiao et al., "Adversarial Learning of Privacy-Preserving and Task-Oriented Representations", 2020.
    https://arxiv.org/abs/1911.10143 The baseline Adv of Yao et al., "Privacy-Preserving Split Learning via Patch
    Shuffling over Transformers", 2022, equation 9: the attacker minimises the error of its reconstructions, the
    client's layers minimise the task's loss less that error.
    Departs from the papers: a decoder for smashed data of any layout, whose images are in [0, 1], so that the error
    which the client maximises is bounded; only squared errors, where the first paper has perceptual ones too; the
    attacker learns from the client's own images, as it must where there are no others. On every batch the attacker
    learns first, then the client against it. Nothing is protected before the client has learned to (table V of the
    second paper), and a client whose layers are frozen cannot learn.
    """

    weight: Annotated[float, Ge(0)] = 10.0  # of the attacker's squared error, which the client's layers maximise
    lr: Annotated[float, Gt(0)] = 1e-3  # of the simulated attacker (Adam)
    width: Annotated[int, Ge(1)] = 64  # channels of the simulated attacker
    blocks: Annotated[int, Ge(0)] = 2  # its residual convolutions
    steps: Annotated[int, Ge(1)] = 1  # its updates per batch, before the client's

    def bind(self, context: Context) -> Adversarial:
        images_only("adversarial", context.sample, _INSTEAD)
        return super().bind(context)

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        if self.weight == 0:
            return None
        if not z.requires_grad:
            raise CellError(
                "adversarial: the client's layers are frozen or have no weights, so they cannot learn against the "
                "simulated attacker; train them, or choose a defense that changes what is sent"
            )
        attacker = self._attacker(x, z)
        attacker.learn(z, x, self.steps)
        return -self.weight * attacker.error(z, x)

    def holds(self) -> Iterable[Tensor]:
        """What it keeps in a client's memory between steps."""
        known: Simulated | None = self.__dict__.get("_simulated")
        return known.holds() if known is not None else ()

    def _attacker(self, x: Tensor, z: Tensor) -> Simulated:
        """This client's own, made when it is first needed: only then are shapes and device known."""
        known: Simulated | None = self.__dict__.get("_simulated")
        if known is not None:
            return known
        images_only("adversarial", x.shape[1:], _INSTEAD)
        shape = tuple(z.shape[1:])
        layout = self.context.layout
        if layout is None or layout.shape != shape:
            layout = by_rank(shape)
        with seeded(self.context.secret, "simulated attacker"):
            decoder = Decoder(layout, tuple(x.shape[1:]), self.width, self.blocks)
        made = Simulated(decoder.to(z.device), self.lr)
        object.__setattr__(self, "_simulated", made)  # components are frozen; this is no setting
        return made
