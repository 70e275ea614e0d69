"""What a run needs before its first step: data, networks, who holds which samples. `check` stops here."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from splitbench.bench import parts
from splitbench.bench.plan import RunSpec
from splitbench.core.component import Part
from splitbench.core.data import DataSet, Samples, as_input
from splitbench.core.defense import Composed, Defense
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.core.model import Model
from splitbench.core.randomness import derive, generator, seeded
from splitbench.core.split import SplitModel
from splitbench.core.topology import Topology
from splitbench.data._allocate import Allocation, allocate
from splitbench.data._folders import folders
from splitbench.data._partition import partition


def load_data(part: Part) -> DataSet:
    """A data set, read once per process from the folders that are set."""
    return _load(part.name, json.dumps(part.settings, sort_keys=True), folders())


@functools.lru_cache(maxsize=4)
def _load(name: str, settings: str, places: tuple[Path, ...]) -> DataSet:
    data: DataSet = parts.build(Part("data", name, json.loads(settings))).load(places)
    return data


@dataclass(frozen=True)
class Prepared:
    """Everything a run starts from. Private data is held here and lent to the client's side and to metrics."""

    spec: RunSpec
    data: DataSet
    allocation: Allocation
    clients: tuple[Tensor, ...]  # each client's rows of the training split
    topology: Topology
    defense: Defense
    models: tuple[SplitModel, ...]

    @property
    def shares(self) -> list[float]:
        total = sum(len(rows) for rows in self.clients)
        return [len(rows) / total for rows in self.clients]

    @property
    def evaluation(self) -> Samples:
        rows = self.allocation.evaluation
        return Samples(self.data.test.x[rows], self.data.test.y[rows])

    @property
    def auxiliary(self) -> Samples:
        rows = self.allocation.auxiliary
        return Samples(self.data.train.x[rows], self.data.train.y[rows])


def prepare(spec: RunSpec) -> Prepared:
    data = load_data(spec.data)
    if data.digest != spec.data_digest:
        raise SplitbenchError(
            f"the data set '{spec.data.name}' is not the one this run was planned with "
            f"(digest {data.digest[:12]}, planned {spec.data_digest[:12]})"
        )
    counts = spec.samples
    # The same samples for every defense of a seed: what is compared must see the same images.
    allocation = allocate(data, counts.private, counts.auxiliary, counts.evaluation, generator(spec.seed, "allocation"))
    allocation.check()
    labels = data.train.y[allocation.private]
    rows = partition(spec.partition, labels, spec.clients, spec.alpha, generator(spec.seed, "partition"))
    topology: Topology = parts.build(spec.topology)
    defense = _defense(spec).keyed(derive(spec.seed, "secrets"))
    with seeded(spec.seed, "initialisation"):
        model = defense.prepare(_network(spec, data, topology))
    return Prepared(
        spec,
        data,
        allocation,
        tuple(allocation.private[mine] for mine in rows),
        topology,
        defense,
        topology.lay_out(model, spec.clients),
    )


def _defense(spec: RunSpec) -> Composed:
    return Composed(tuple(parts.build(part) for part in spec.defenses), spec.protected)


def _network(spec: RunSpec, data: DataSet, topology: Topology) -> SplitModel:
    architecture: Model = parts.build(spec.model)
    network = architecture.build(data.shape, data.classes)
    # Channels last is the layout in which convolutions on a CPU are fastest; values do not change.
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return architecture.split(network, topology.places(spec.cut, list(architecture.cuts)))


def template(spec: RunSpec, seed: int) -> torch.nn.Module:
    """The client's first stage, freshly initialised: what an adversary that knows the layers can build."""
    data = load_data(spec.data)
    with seeded(derive(seed, "template")):
        # The layers as they are trained: a defense may have replaced some.
        return _defense(spec).prepare(_network(spec, data, parts.build(spec.topology))).stages[0]


def check_run(spec: RunSpec) -> None:
    """Everything that can be wrong with a run and is known before training. Raises `SplitbenchError`."""
    data = load_data(spec.data)
    architecture: Model = parts.build(spec.model)
    if architecture.modality != data.modality:
        raise SplitbenchError(
            [Mistake("model", f"{spec.model.name} takes {architecture.modality}, {spec.data.name} is {data.modality}")]
        )
    if spec.protected is not None and spec.protected > spec.clients:
        raise SplitbenchError([Mistake("protected", f"{spec.protected} of {spec.clients} clients cannot be protected")])
    topology: Topology = parts.build(spec.topology)
    try:
        defenses: list[Defense] = [parts.build(part) for part in spec.defenses]
    except SplitbenchError as error:
        raise SplitbenchError([Mistake("defenses", mistake.what) for mistake in error.mistakes]) from error
    if any(defense.mixes for defense in defenses) and not topology.simultaneous:
        raise SplitbenchError(
            [
                Mistake(
                    "topology", f"{spec.topology.name} has one client at a time, so nothing can be mixed; use parallel"
                )
            ]
        )
    counts = spec.samples
    allocate(data, counts.private, counts.auxiliary, counts.evaluation, generator(spec.seed, "allocation")).check()
    _check_network(json.dumps([p.document() for p in (spec.data, spec.model, spec.topology)], sort_keys=True), spec.cut)


@functools.lru_cache(maxsize=64)
def _check_network(documents: str, cut: str) -> None:
    """Whether this network can be built for this data and cut there; the same for every defense and seed."""
    data_part, model_part, topology_part = (
        Part(kind, document["name"], document["settings"], document["version"])
        for kind, document in zip(("data", "models", "topologies"), json.loads(documents), strict=True)
    )
    data = load_data(data_part)
    architecture: Model = parts.build(model_part)
    topology: Topology = parts.build(topology_part)
    with seeded(0):
        try:
            network = architecture.build(data.shape, data.classes)
            split = architecture.split(network, topology.places(cut, list(architecture.cuts)))
        except SplitbenchError as error:
            raise SplitbenchError([Mistake("cut", m.what) for m in error.mistakes]) from error
        split.eval()
        try:
            with torch.no_grad():
                split.joined(as_input(data.train.x[:1]))
        except (RuntimeError, ValueError, AssertionError) as error:
            raise SplitbenchError(
                [Mistake("model", f"{model_part.name} cannot take inputs of shape {data.shape}: {error}")]
            ) from error
