"""What is to be run: cells, each with a key that is a digest of everything that could change its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from splitbench.core.component import Part
from splitbench.core.threat import ThreatModel

SCALES = ("smoke", "desk", "paper")
KEY_LENGTH = 16


Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
Precision = Literal["float32", "bf16"]
Augmentation = Literal["flip", "crop"]
Pretraining = Literal["none", "supervised", "masked"]

_LATER = ("head_lr", "end", "frozen", "pretrain", "pretrain_epochs")
_UNSAID = object()


@dataclass(frozen=True)
class Training:
    """How the network learns. A trailing comment is the explanation that `--help` prints."""

    epochs: Positive = 5  # passes over the private samples
    batch: Positive = 64  # samples a client puts into one step
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"  # of every party
    lr: Annotated[float, Gt(0)] = 1e-3  # learning rate; of one_cycle the highest
    weight_decay: Annotated[float, Ge(0)] = 0.0  # pull of the weights towards zero
    momentum: Annotated[float, Ge(0)] = 0.9  # of sgd
    schedule: Literal["constant", "cosine", "one_cycle"] = "constant"  # of the learning rate
    warmup: Count = 0  # epochs of linear warm-up
    label_smoothing: Annotated[float, Ge(0), Lt(1)] = 0.0  # share of each label spread over all classes
    augment: tuple[Augmentation, ...] = ()  # what a client does to its images, drawn anew for each; may be repeated
    crop: Positive = 3  # pixels of padding around the image that a crop is cut from
    precision: Precision = "float32"  # of the arithmetic in training
    head_lr: Annotated[float, Ge(0)] = 0.0  # learning rate of the network's last layer; 0: that of all others
    end: Annotated[float, Ge(0), Le(1)] = 0.0  # of cosine: the share of the learning rate that is left at the end
    frozen: bool = False  # the client's layers stay as they begin, so that it has no backward pass
    pretrain: Pretraining = "none"  # of the whole network on the auxiliary samples, before the training
    pretrain_epochs: Positive = 30  # passes over the auxiliary samples

    def __post_init__(self) -> None:
        object.__setattr__(self, "augment", tuple(self.augment))  # a list, where it comes from a file

    def document(self) -> dict[str, Any]:
        """As plain data. What was added later is left out at its default: rows made before keep their keys."""
        later = {f.name: f.default for f in fields(self) if f.name in _LATER}
        if self.pretrain == "none":
            later["pretrain_epochs"] = self.pretrain_epochs  # of a pretraining that there is not
        said = {name: value for name, value in asdict(self).items() if later.get(name, _UNSAID) != value}
        return {**said, "augment": list(self.augment)}


@dataclass(frozen=True)
class Counts:
    """How many samples each side gets. They never overlap."""

    private: Count = 0  # training samples the clients hold; 0: all that are left
    auxiliary: Count = 500  # samples set aside for the adversary
    evaluation: Positive = 64  # samples the attacks will be judged on
    candidates: Count = 0  # members, and as many non-members, that a membership attack must distinguish


@dataclass(frozen=True, kw_only=True)
class Options:
    """The plain options of a run: keys of a recipe and options of `train`."""

    clients: Positive = 1  # how many share the private samples
    partition: Literal["iid", "dirichlet"] = "iid"  # how they share them
    alpha: Annotated[float, Gt(0)] = 0.5  # of a Dirichlet partition; small is uneven
    protected: Count | None = None  # how many of the clients defend themselves (default: all)
    record: bool = False  # keep everything that crosses the wire


@dataclass(frozen=True)
class RunSpec(Options):
    """Everything that decides a trained network."""

    data: Part
    data_digest: str
    model: Part
    cut: str
    topology: Part
    defenses: tuple[Part, ...]
    auxiliary: Part | None = None  # the data set that auxiliary samples come from; None: that of the private ones
    auxiliary_digest: str = ""
    training: Training = field(default_factory=Training)
    samples: Counts = field(default_factory=Counts)
    scale: str = "desk"
    seed: int = 0

    def __post_init__(self) -> None:
        # What makes no difference must not make another run: nothing to protect with, or everybody protected.
        if self.protected is None or self.protected > self.clients:
            return
        if not self.defenses or self.protected == self.clients:
            object.__setattr__(self, "protected", None)

    def document(self) -> dict[str, Any]:
        """As plain data: what the key is a digest of, and what `recipe.yaml` of a run shows."""
        return {
            "data": {**self.data.document(), "digest": self.data_digest},
            "auxiliary": {**self.auxiliary.document(), "digest": self.auxiliary_digest} if self.auxiliary else None,
            "model": self.model.document(),
            "cut": self.cut,
            "topology": self.topology.document(),
            "defenses": [part.document() for part in self.defenses],
            "training": self.training.document(),
            "samples": asdict(self.samples),
            **{f.name: getattr(self, f.name) for f in fields(Options)},
            **({} if self.partition == "dirichlet" else {"alpha": None}),
            "scale": self.scale,
            "seed": self.seed,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> RunSpec:
        """The inverse of `document`."""
        rest = dict(document)
        data, auxiliary = rest.pop("data"), rest.pop("auxiliary")
        alpha = rest.pop("alpha")
        return cls(
            data=_part("data", data),
            data_digest=data["digest"],
            auxiliary=_part("data", auxiliary) if auxiliary else None,
            auxiliary_digest=auxiliary["digest"] if auxiliary else "",
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
        """Of what was declared. The number of threads and the device move the last bits of a result; they are kept in
        its provenance, and do not make another run."""
        return digest(self.document())


@dataclass(frozen=True)
class Cell:
    """One row to be: a training, or an attack on one."""

    run: RunSpec
    attack: Part | None = None
    threat: ThreatModel | None = None
    restarts: int = 1  # of the attack, from other draws; the best of each image counts
    minutes: float | None = None  # after which the attack is stopped; what it then has depends on the machine
    bar: Mapping[str, float] = field(default_factory=dict, compare=False)
    """What an undefended training must reach in each metric of utility to count. Says how a row is read, not what is
    run, so it is no part of the key."""

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


def usual_threat(run: RunSpec, shares_labels: bool, party: str = "server") -> ThreatModel:
    """What an adversary holds unless something else is said: the strongest honest but curious one.

    It knows the layers, holds every auxiliary sample and may query the client once for each; it has labels if the
    topology sends them to it. It does not tamper.
    """
    return ThreatModel(
        party=party,
        labels=shares_labels and party == "server",
        architecture=True,
        auxiliary=run.samples.auxiliary,
        queries=run.samples.auxiliary,
        transcript=run.record,
    )


def digest(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
