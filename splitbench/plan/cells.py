"""What is to be run: cells, each with a key that is a digest of everything that could change its result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from splitbench.core.component import Part
from splitbench.core.threat import ThreatModel

SCALES = ("smoke", "desk", "paper")
KEY_LENGTH = 16


@dataclass(frozen=True)
class Training:
    epochs: int = 5
    batch: int = 64
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9  # of sgd
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0  # epochs of linear warm-up


@dataclass(frozen=True)
class Counts:
    """How many samples each side gets. They never overlap."""

    private: int = 0  # 0: all that is left
    auxiliary: int = 500
    evaluation: int = 64


@dataclass(frozen=True)
class RunSpec:
    """Everything that decides a trained network."""

    data: Part
    data_digest: str
    model: Part
    cut: str
    topology: Part
    defenses: tuple[Part, ...]
    training: Training = field(default_factory=Training)
    samples: Counts = field(default_factory=Counts)
    clients: int = 1
    partition: str = "iid"
    alpha: float = 0.5  # of a Dirichlet partition
    protected: int | None = None  # how many of the clients defend themselves; None: all
    record: bool = False
    scale: str = "desk"
    seed: int = 0

    def document(self) -> dict[str, Any]:
        """As plain data: what the key is a digest of, and what `recipe.yaml` of a run shows."""
        return {
            "data": {**self.data.document(), "digest": self.data_digest},
            "model": self.model.document(),
            "cut": self.cut,
            "topology": self.topology.document(),
            "defenses": [part.document() for part in self.defenses],
            "training": asdict(self.training),
            "samples": asdict(self.samples),
            "clients": self.clients,
            "partition": self.partition,
            "alpha": self.alpha if self.partition == "dirichlet" else None,
            "protected": self.protected,
            "record": self.record,
            "scale": self.scale,
            "seed": self.seed,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RunSpec:
        """The inverse of `document`."""
        rest = dict(document)
        data = rest.pop("data")
        alpha = rest.pop("alpha")
        return cls(
            data=_part("data", data),
            data_digest=data["digest"],
            model=_part("models", rest.pop("model")),
            topology=_part("topologies", rest.pop("topology")),
            defenses=tuple(_part("defenses", part) for part in rest.pop("defenses")),
            training=Training(**rest.pop("training")),
            samples=Counts(**rest.pop("samples")),
            **({} if alpha is None else {"alpha": alpha}),
            **rest,
        )

    @cached_property
    def key(self) -> str:
        return digest(self.document())


@dataclass(frozen=True)
class Cell:
    """One row to be: a training, or an attack on one."""

    run: RunSpec
    attack: Part | None = None
    threat: ThreatModel | None = None
    restarts: int = 1  # of the attack, from other draws; the best of each image counts
    minutes: float | None = None  # after which the attack is stopped; what it then has depends on the machine

    @cached_property
    def key(self) -> str:
        return self.run.key if self.attack is None else digest(self.document())

    def document(self) -> dict[str, Any]:
        """As plain data: what the key of an attack is a digest of."""
        document: dict[str, Any] = {"run": self.run.document()}
        if self.attack is not None and self.threat is not None:
            document |= {"attack": self.attack.document(), "threat": asdict(self.threat)}
            effort = {"restarts": self.restarts, "minutes": self.minutes}
            document |= {"effort": effort} if effort != {"restarts": 1, "minutes": None} else {}
        return document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Cell:
        """The inverse of `document`."""
        run, attack = RunSpec.from_document(document["run"]), document.get("attack")
        if attack is None:
            return cls(run)
        return cls(run, _part("attacks", attack), ThreatModel(**document["threat"]), **document.get("effort", {}))

    @property
    def twin(self) -> Cell:
        """The same on the undefended run: what shows that an attack works at all."""
        threat = replace(self.threat, knowledge="none") if self.threat else None
        return replace(self, run=replace(self.run, defenses=(), protected=None), threat=threat)

    def __str__(self) -> str:
        what = self.attack.name if self.attack else "train"
        defense = "+".join(part.name for part in self.run.defenses) or "none"
        return f"{what} · {self.run.data.name} · {self.run.model.name} · {defense} · seed {self.run.seed}"


def _part(kind: str, document: dict[str, Any]) -> Part:
    return Part(kind, document["name"], document["settings"], document["version"])


def digest(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
