"""What is to be profiled: a network, its cut, a defense, who talks to whom, and how many samples at a time."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core.component import Part
from splitbench.core.data import Field, Task
from splitbench.core.defense import Composed, Context
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About
from splitbench.core.model import Model, build_network
from splitbench.core.party import Party
from splitbench.core.randomness import seeded
from splitbench.core.split import SplitModel, output_shape
from splitbench.core.topology import Topology
from splitbench.edge.trace import Numberless
from splitbench.plan import components
from splitbench.plan.cells import Training
from splitbench.runner.parties import Members, assemble, networks
from splitbench.runner.prepare import task_loss

Work = Literal["training", "inference"]
WORKS: tuple[Work, ...] = ("training", "inference")
_SAMPLES = {
    "text": "texts, such as --shape 128",
    "image": "images, such as --shape 3x32x32",
    "tabular": "rows of a table, such as --shape 39",
}


@dataclass(frozen=True)
class Case:
    """Everything that decides the cost. Without a data set, `shape` and `classes` say what one sample is."""

    model: Part
    cut: str
    defenses: tuple[Part, ...] = ()
    topology: Part = field(default_factory=lambda: Part("topologies", "vanilla", {}))
    shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10
    task: Task = "classes"
    samples: int = 1000  # of all clients together
    clients: int = 1
    training: Training = field(default_factory=Training)
    work: Work = "training"
    dataset: str = ""  # whose samples these are, if anybody's
    modality: str = "image"
    fields: tuple[Field, ...] = ()  # the columns of a table

    @property
    def batch(self) -> int:
        return self.training.batch

    @property
    def defense(self) -> str:
        return " + ".join(components.label(part, always=1) for part in self.defenses) or "none"

    @property
    def sizes(self) -> list[int]:
        """Samples of each client, as even as they can be."""
        even, more = divmod(self.samples, self.clients)
        return [even + (i < more) for i in range(self.clients)]

    def document(self) -> dict[str, Any]:
        return {
            "model": components.label(self.model),
            "cut": self.cut,
            "defense": self.defense,
            "topology": components.label(self.topology),
            "shape": "x".join(map(str, self.shape)),
            "classes": self.classes,
            "batch": self.batch,
            "clients": self.clients,
            "samples": self.samples,
            "optimizer": self.training.optimizer,
            "frozen": self.training.frozen,
            "work": self.work,
        }


@dataclass(frozen=True)
class Scene:
    """A case, built: what one step runs on."""

    topology: Topology
    members: Members
    plan: Plan
    models: tuple[SplitModel, ...]
    shape: tuple[int, ...]
    classes: int
    task: Task
    device: str
    modality: str
    packages: frozenset[str]  # besides torch, what must be loaded to have this network

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        if len(self.shape) == 1:
            kind = torch.float32 if self.modality == "tabular" else torch.int64
            x = torch.zeros(size, *self.shape, dtype=kind, device=self.device)
        elif self.device == "meta":
            x = torch.empty(size, *self.shape, device="meta")
        else:
            # Smooth, as images are: how long some defenses take depends on it.
            x = F.interpolate(torch.rand(size, self.shape[0], 4, 4), size=self.shape[1:], mode="bilinear")
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        several = (self.classes,) if self.task == "attributes" else ()
        return x, torch.zeros(size, *several, dtype=torch.int64, device=self.device)

    def given(self, size: int, party: Party) -> Batch:
        """A batch of a client that takes part in a step."""
        return Batch(*self.batch(size), About.plain(party.index, torch.arange(size)))


def sketch(case: Case) -> Scene:
    """As `stage`, without numbers, and made once for cases that differ in their batches alone."""
    document = {**plain(case), "training": {"frozen": case.training.frozen}}
    return _sketch(json.dumps({key: document[key] for key in sorted(document) if key != "samples"}))


@functools.lru_cache(maxsize=2)
def _sketch(document: str) -> Scene:
    known = json.loads(document)
    # One sample each: a client without any would have no share in what is learned.
    return stage(from_plain({**known, "samples": known["clients"]}))


def stage(case: Case, device: str = "meta") -> Scene:
    """The case's networks and defense. On `meta` they have sizes and no numbers, so that any model fits any machine."""
    architecture: Model = components.build(case.model)
    text = architecture.modality == "text"
    if (architecture.modality == "image") == (len(case.shape) == 1):
        what = f"{_SAMPLES[architecture.modality]}"
        raise SplitbenchError(
            [Mistake("model", f"{case.model.name} takes {what}; a sample here has shape {case.shape}")]
        )
    topology: Topology = components.build(case.topology)
    defense = Composed(tuple(components.build(part) for part in case.defenses))
    if defense.mixes and not topology.simultaneous:
        raise SplitbenchError(f"{case.topology.name} has one client at a time, so nothing can be mixed; use parallel")
    network = _network(architecture, case, device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    packages = frozenset(type(module).__module__.partition(".")[0] for module in network.modules())
    split = architecture.split(network, topology.places(case.cut, list(architecture.cuts)))
    layout = None
    if len(split.stages) > 1:
        with Numberless():
            smashed = output_shape(split.stages[0], case.shape, torch.int64 if text else torch.float32)
        layout = architecture.layout(case.cut, network, smashed, case.shape)
    context = Context(layout, case.classes, case.clients, tokens=architecture.tokens, sample=tuple(case.shape))
    plan = Plan(tuple(case.sizes), case.batch, case.training.epochs)
    model = defense.bind(context).prepare(split)
    for part, owner in zip(model.stages, model.owners, strict=True):
        part.to(device)  # also what a defense has put in
        if case.training.frozen and owner.role == "client" and len(model.stages) > 1:
            part.requires_grad_(False)
    members, plan = assemble(model, plan, defense, context, 0, task_loss(case.task))
    models = networks(model.owners, members)
    return Scene(
        topology, members, plan, models, case.shape, case.classes, case.task, device, architecture.modality, packages
    )


def _network(architecture: Model, case: Case, device: str) -> torch.nn.Module:
    with seeded(0, "profile"):
        if device != "meta":
            return build_network(architecture, case.shape, case.classes, case.fields)
        try:
            with torch.device("meta"):
                return build_network(architecture, case.shape, case.classes, case.fields)
        except SplitbenchError:
            raise
        except Exception:  # whatever a constructor cannot do without numbers
            return build_network(architecture, case.shape, case.classes, case.fields).to("meta")


def resolve(spec: Mapping[str, Any] | str, kind: Any) -> Part:
    """A component by name or `{name: {settings}}`; raises with every mistake."""
    part, mistakes = components.resolve(kind, spec, str(kind).rstrip("s"))
    if part is None:
        raise SplitbenchError(mistakes)
    return part


def plain(case: Case) -> dict[str, Any]:
    """As JSON can carry it to another process."""
    return {
        "model": {case.model.name: dict(case.model.settings)},
        "cut": case.cut,
        "defenses": [{part.name: dict(part.settings)} for part in case.defenses],
        "topology": {case.topology.name: dict(case.topology.settings)},
        "shape": list(case.shape),
        "training": asdict(case.training),
        "fields": [[field.name, field.categories] for field in case.fields],
        **{key: getattr(case, key) for key in ("classes", "task", "samples", "clients", "work", "dataset", "modality")},
    }


def from_plain(document: Mapping[str, Any]) -> Case:
    """The inverse of `plain`."""
    rest = dict(document)
    return Case(
        model=resolve(rest.pop("model"), "models"),
        defenses=tuple(resolve(spec, "defenses") for spec in rest.pop("defenses")),
        topology=resolve(rest.pop("topology"), "topologies"),
        shape=tuple(rest.pop("shape")),
        fields=tuple(Field(*field) for field in rest.pop("fields")),
        training=Training(**rest.pop("training")),
        **rest,
    )
