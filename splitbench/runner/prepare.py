"""What a run needs before its first step: data, networks, who holds which samples. `check` stops here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.core.data import DataSet, Samples
from splitbench.core.defense import Composed, Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import Model
from splitbench.core.randomness import derive, generator, seeded
from splitbench.core.split import SplitModel
from splitbench.core.topology import Topology
from splitbench.data._allocation.allocate import Allocation, allocate
from splitbench.data._allocation.partition import partition
from splitbench.plan import components
from splitbench.plan.cells import RunSpec
from splitbench.plan.feasible import load_data


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
    topology: Topology = components.build(spec.topology)
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
    return Composed(tuple(components.build(part) for part in spec.defenses), spec.protected)


def _network(spec: RunSpec, data: DataSet, topology: Topology) -> SplitModel:
    architecture: Model = components.build(spec.model)
    network = architecture.build(data.shape, data.classes)
    # Channels last is the layout in which convolutions on a CPU are fastest; values do not change.
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return architecture.split(network, topology.places(spec.cut, list(architecture.cuts)))


def template(spec: RunSpec, seed: int) -> torch.nn.Module:
    """The client's first stage, freshly initialised: what an adversary that knows the layers can build."""
    data = load_data(spec.data)
    with seeded(derive(seed, "template")):
        # The layers as they are trained: a defense may have replaced some.
        return _defense(spec).prepare(_network(spec, data, components.build(spec.topology))).stages[0]
