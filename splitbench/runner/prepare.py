"""What a run needs before its first step: data, parties with their layers, who holds which samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.core import device
from splitbench.core.component import Part
from splitbench.core.data import DataSet, Samples, Task, as_input
from splitbench.core.defense import Composed, Context
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.member import Batch, Client, Loss, Member, Plan
from splitbench.core.message import About
from splitbench.core.model import Model, build_for
from splitbench.core.party import Party
from splitbench.core.randomness import Streams, derive, generator, seeded
from splitbench.core.split import SplitModel, output_shape
from splitbench.core.threat import Knowledge
from splitbench.core.topology import Topology
from splitbench.data._allocation.allocate import Allocation, allocate
from splitbench.data._allocation.partition import partition
from splitbench.plan import components
from splitbench.plan.cells import RunSpec
from splitbench.plan.feasible import load_data
from splitbench.runner.augment import augmented
from splitbench.runner.parties import assemble, networks
from splitbench.runner.pretrain import Start, pretraining

PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Prepared:
    """Everything a run starts from. Private data is held here and lent to the client's side and to metrics."""

    spec: RunSpec
    data: DataSet
    allocation: Allocation
    clients: tuple[Tensor, ...]  # each client's rows of the training split
    topology: Topology
    members: dict[Party, Member]
    plan: Plan
    layout: Layout | None  # of what crosses the first cut
    owners: tuple[Party, ...]  # of the stages, in the order data flows

    @cached_property
    def models(self) -> tuple[SplitModel, ...]:
        """The network of each client, with the server's part of it."""
        return networks(self.owners, self.members)

    @property
    def evaluation(self) -> Samples:
        return self.data.test.take(self.allocation.evaluation)

    @property
    def auxiliary(self) -> Samples:
        return self.allocation.public.train.take(self.allocation.auxiliary)

    @cached_property
    def candidates(self) -> tuple[Samples, Tensor]:
        """For membership: samples of the first client and as many that nobody trained on, and which is which."""
        draws = generator(self.spec.seed, "candidates")
        mine = self.clients[0]
        members = mine[torch.randperm(len(mine), generator=draws)[: self.spec.samples.candidates]]
        inside = self.data.train.take(members)
        outside = self.data.test.take(self.allocation.nonmembers)
        order = torch.randperm(len(inside) + len(outside), generator=draws)
        truth = torch.cat((torch.ones(len(inside)), torch.zeros(len(outside)))).long()
        both = Samples(torch.cat((inside.x, outside.x)), torch.cat((inside.y, outside.y)))
        return both.take(order), truth[order]


def prepare(spec: RunSpec, pretrained: bool = True) -> Prepared:
    """Without `pretrained`, the network begins as it was initialised whatever the run says: its weights follow."""
    data = _planned(spec.data, spec.data_digest)
    public = _planned(spec.auxiliary, spec.auxiliary_digest) if spec.auxiliary else None
    counts = spec.samples
    # The same samples for every defense of a seed: what is compared must see the same images.
    allocation = allocate(
        data,
        counts.private,
        counts.auxiliary,
        counts.evaluation,
        generator(spec.seed, "allocation"),
        public,
        counts.candidates,
    )
    allocation.check()
    labels = data.train.y[allocation.private]
    shares = partition(spec.partition, labels, spec.clients, spec.alpha, generator(spec.seed, "partition"))
    rows = tuple(allocation.private[mine] for mine in shares)
    topology: Topology = components.build(spec.topology)
    start = pretraining(spec, data, allocation) if pretrained else None
    model, layout = network(spec, data, spec.seed, start=start)
    plan = Plan(tuple(map(len, rows)), spec.training.batch, spec.training.epochs)
    members, plan = assemble(
        model,
        plan,
        defense_of(spec),
        context_of(spec, data, layout),
        spec.seed,
        task_loss(data.task, spec.training.label_smoothing),
        spec.protected,
        PRECISIONS[spec.training.precision],
    )
    for member in members.values():
        if isinstance(member, Client):
            member.load = _loader(spec, data, rows[member.party.index], member.party.index, member.streams)
    return Prepared(spec, data, allocation, rows, topology, members, plan, layout, model.owners)


def _planned(part: Part, digest: str) -> DataSet:
    """The data set, if it still is what it was when the run was planned."""
    data = load_data(part)
    if data.digest != digest:
        raise SplitbenchError(
            f"the data set '{part.name}' is not the one this run was planned with "
            f"(digest {data.digest[:12]}, planned {digest[:12]})"
        )
    return data


def defense_of(spec: RunSpec) -> Composed:
    return Composed(tuple(components.build(part) for part in spec.defenses))


def secret_of(spec: RunSpec) -> int:
    """The seed of a run's secrets: one per experiment, and the same whatever the strength of the defense is."""
    experiment = (spec.data.name, spec.model.name, spec.cut, spec.topology.name, spec.clients)
    return derive(spec.seed, "secrets", *experiment)


def network(
    spec: RunSpec,
    data: DataSet,
    seed: int,
    *purpose: object,
    guessed: Generator | None = None,
    start: Start | None = None,
) -> tuple[SplitModel, Layout | None]:
    """The network, cut, as the defense wants it to be, and the layout of what will cross the first cut.

    With `guessed`, as a defense wants it whose secrets are drawn from there. `start` gives it the weights with which
    it begins.
    """
    topology: Topology = components.build(spec.topology)
    architecture: Model = components.build(spec.model)
    # Initialised on the CPU whatever the device, so that a seed means the same weights everywhere.
    with seeded(seed, "initialisation", *purpose):
        whole = build_for(architecture, data)
        # Channels last is the layout in which convolutions on a CPU are fastest; values do not change.
        whole = whole.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if start is not None:
            start(whole)
        split = architecture.split(whole, topology.places(spec.cut, list(architecture.cuts)))
        layout = None
        if len(split.stages) > 1:
            smashed = output_shape(split.stages[0], data.shape, as_input(data.train.x[:1]).dtype)
            layout = architecture.layout(spec.cut, whole, smashed, data.shape)
        defense = defense_of(spec).bind(context_of(spec, data, layout))
        split = (defense if guessed is None else defense.rebuilt(guessed)).prepare(split)
    for stage, owner in zip(split.stages, split.owners, strict=True):
        stage.to(device.current())
        if spec.training.frozen and owner.role == "client" and len(split.stages) > 1:
            stage.requires_grad_(False)
    return split, layout


def context_of(spec: RunSpec, data: DataSet, layout: Layout | None) -> Context:
    """What a defense of this run is bound to; each client has its own secret besides."""
    model: Model = components.build(spec.model)
    return Context(layout, data.classes, spec.clients, secret=secret_of(spec), tokens=model.tokens, sample=data.shape)


def template(spec: RunSpec, seed: int, knowledge: Knowledge = "none") -> nn.Module:
    """The client's first stage, freshly initialised: what an adversary that knows the layers can build."""
    # The layers as they are trained: a defense may have replaced some. Its secrets are known at `exact` alone.
    guessed = None if knowledge == "exact" else generator(seed, "secrets")
    return network(spec, load_data(spec.data), seed, "template", guessed=guessed)[0].stages[0]


def task_loss(task: Task, smoothing: float = 0.0) -> Loss:
    """Cross entropy, hard labels or soft; for attributes, one binary cross entropy each."""
    if task == "attributes":

        def binary(logits: Tensor, y: Tensor) -> Tensor:
            wanted = y.to(logits.dtype)
            return F.binary_cross_entropy_with_logits(logits, wanted * (1 - smoothing) + smoothing / 2)

        return binary
    return (lambda logits, y: F.cross_entropy(logits, y, label_smoothing=smoothing)) if smoothing else F.cross_entropy


def _loader(spec: RunSpec, data: DataSet, rows: Tensor, index: int, streams: Streams) -> Callable[[Tensor], Batch]:
    training = spec.training
    kinds = training.augment if data.modality == "image" else ()

    def load(numbers: Tensor) -> Batch:
        samples = rows[numbers]
        x = data.train.x[samples]
        if kinds:
            x = augmented(x, kinds, training.crop, streams.of("augment"))
        y = data.train.y[samples].to(device.current())
        return Batch(given(x), y, About.plain(index, samples))

    return load


def given(x: Tensor) -> Tensor:
    """Samples as a network is given them, on the device of the run."""
    return channels_last(as_input(x.to(device.current())))


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
