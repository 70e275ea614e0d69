"""What an attack is. Scoring belongs to the runner, which alone has the truth."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal

from torch import Generator

from splitbench.core.component import Component
from splitbench.core.message import Message
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


class Attack(Component):
    """Recover the targets of a view. Declares the weakest adversary that can mount it."""

    goal: ClassVar[str] = "inputs"  # what it recovers: inputs, labels, membership or attributes
    needs: ClassVar[ThreatModel] = ThreatModel()
    role: ClassVar[Literal["attack", "floor", "bound"]] = "attack"  # a floor looks at nothing, a bound at too much
    readout: ClassVar[Literal["clamp", "minmax"]] = "clamp"  # how guesses become images when attacks are ranked
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({})
    """What it must reach undefended to say anything about a defense: by metric, then by data set ("*": any other)."""
    modality: ClassVar[str | tuple[str, ...] | None] = "image"  # the data it works on; None: any

    aims: ClassVar[Literal["evaluation", "training"]] = "evaluation"
    """At messages about samples sent for it, or at the last ones of the training, about what was trained on."""

    phases: ClassVar[tuple[str, ...]] = ()  # the settings that count iterations: what a budget limits
    asks: ClassVar[Literal["client", "twin"]] = (
        "client"  # whom queries reach: the client, or that of the undefended twin
    )

    @property
    def uses_public_labels(self) -> bool:
        """Whether it uses the labels of auxiliary samples, which then have to be labels of the same task."""
        return False

    @classmethod
    def modalities(cls) -> tuple[str, ...]:
        """The kinds of data it works on; none named: any."""
        return (cls.modality,) if isinstance(cls.modality, str) else cls.modality or ()

    @classmethod
    def works_on(cls, modality: str) -> bool:
        """Whether it can be mounted on data of this kind."""
        return not cls.modalities() or modality in cls.modalities()

    @property
    def iterations(self) -> int:
        """How many steps it takes after it has heard everything."""
        return sum(getattr(self, phase) for phase in self.phases)

    def lacks(self, threat: ThreatModel) -> str | None:
        """What this adversary lacks for the attack, as a sentence; override where needs have alternatives."""
        return threat.lacks(self.needs)

    def run(self, view: View, generator: Generator) -> Recovered:
        """Guess what the goal says, of each target."""
        raise NotImplementedError


class OnlineAttack(Attack):
    """An attack that attends the training: the run is replayed from its seed with the attack listening."""

    recalls: ClassVar[int | None] = None
    """So many samples, the last that the attacked client sent, are all it wants to hear, after the fact; None: it
    hears every message to or from the party that attacks, as it passes."""

    def begin(self, view: View, generator: Generator) -> None:
        """Before the first step. `view.stages` are the party's live layers; reading them is all that is allowed."""

    def hear(self, message: Message) -> None:
        """Every message to or from the party that attacks, as it passes."""


class ActiveAttack(OnlineAttack):
    """An online attack by a malicious party, which may send something else than the protocol says."""

    needs: ClassVar[ThreatModel] = ThreatModel(tampers=True)

    def tamper(self, honest: Message) -> Message:
        """What it sends instead."""
        return honest
