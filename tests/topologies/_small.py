"""A small network in double precision, dealt out to the parties of any topology, and trainings of it on toy samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.defense import Context, Defense
from splitbench.core.layout import Layout
from splitbench.core.member import Batch, Client, Plan
from splitbench.core.message import About
from splitbench.core.party import Party, client
from splitbench.core.randomness import seeded
from splitbench.core.registry import load, names
from splitbench.core.schedule import together
from splitbench.core.split import SplitModel, cut, same_network
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from splitbench.runner.parties import Members, assemble, networks, one_step, programs

CUTS = ("norm", "second", "pool")
CLASSES = 3
RATE = 0.1
ROW = 1000  # the k-th sample of client i is row 1000 i + k of the data


def every_topology() -> list[Topology]:
    return [load("topologies", name)() for name in names("topologies")]  # type: ignore[misc]


def label(thing: object) -> str:
    return type(thing).__name__


def network(dropout: float = 0.0) -> nn.Sequential:
    """Batch norm on the client's side only: at the server, clients in one batch would normalise each other."""
    with seeded(0, "small"):
        layers = nn.Sequential()
        layers.add_module("first", nn.Conv2d(2, 4, 3, padding=1))
        layers.add_module("drop", nn.Dropout(dropout))
        layers.add_module("norm", nn.BatchNorm2d(4))
        layers.add_module("act", nn.ReLU(inplace=True))
        layers.add_module("second", nn.Conv2d(4, 5, 3, stride=2))
        layers.add_module("group", nn.GroupNorm(1, 5))
        layers.add_module("pool", nn.AdaptiveAvgPool2d(1))
        layers.add_module("flat", nn.Flatten())
        layers.add_module("head", nn.Linear(5, CLASSES))
        return layers.double()


BOTTOM = 3  # layers before the first cut
TAIL = 7  # layers before the second cut of a U


class Descent:
    """Plain gradient descent over the layers of one party."""

    def __init__(self, stages: Sequence[nn.Module], rate: float = RATE) -> None:
        self.parameters = [p for stage in stages for p in stage.parameters() if p.requires_grad]
        self.rate = rate

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter -= self.rate * parameter.grad


@dataclass
class Scene:
    """All parties of a run, and what they all know."""

    topology: Topology
    members: Members
    plan: Plan
    owners: tuple[Party, ...]

    @property
    def models(self) -> tuple[SplitModel, ...]:
        return networks(self.owners, self.members)

    def client(self, index: int) -> Client:
        member = self.members[client(index)]
        assert isinstance(member, Client)
        return member

    def at_work(self, party: Party):
        return self.members[party].at_work()

    def step(self, wire: Wire | None = None, batches: Mapping[Party, Batch] | None = None) -> float:
        """One exchange of each client: together if the topology has them together, else one after the other.

        Nothing is updated. Returns the mean task loss.
        """
        wire = wire or Wire()
        batches = batches or {party: batch(party.index) for party in self.plan.clients}
        rounds = [batches] if self.topology.simultaneous else [{party: own} for party, own in batches.items()]
        for member in self.members.values():
            member.losses = [[]]
        for together_now in rounds:
            together(one_step(self.topology, self.members, self.plan, together_now), wire, self.at_work)
        losses = [loss for member in self.members.values() for loss in member.losses[0]]
        return sum(losses) / len(losses)

    def train(self, wire: Wire | None = None) -> Wire:
        wire = wire or Wire()
        for member in self.members.values():
            if member.stages:
                member.learner = Descent(member.stages)
        together(programs(self.topology, self.members, self.plan), wire, self.at_work)
        return wire


def scene(
    topology: Topology,
    clients: int = 1,
    net: nn.Module | None = None,
    defense: Defense | None = None,
    sizes: Sequence[int] = (),
    batch: int = 4,
    epochs: int = 2,
    protected: int | None = None,
) -> Scene:
    """Parties with toy samples of their own: six each, unless sizes are given."""
    net = net if net is not None else network()
    model = same_network(cut(net, places)) if (places := topology.places("norm", CUTS)) else same_network([net])
    defense = defense if defense is not None else Defense()
    context = Context(Layout("maps", (4, 8, 8)), CLASSES, len(sizes) or clients, secret=11)
    plan = Plan(tuple(sizes) or (6,) * clients, batch, epochs)
    members, plan = assemble(
        defense.bind(context).prepare(model), plan, defense, context, 5, F.cross_entropy, protected
    )
    for member in members.values():
        if isinstance(member, Client):
            member.load = loader(member.party.index, member.size)
    return Scene(topology, members, plan, model.owners)


def samples(client: int, size: int) -> tuple[Tensor, Tensor]:
    """A client's toy samples: the first ones are the same whatever the size."""
    source = torch.Generator().manual_seed(100 + client)
    x = torch.stack([torch.rand(2, 8, 8, generator=source, dtype=torch.float64) for _ in range(size)])
    return x, torch.arange(size).add(client).remainder(CLASSES)


def loader(client: int, size: int) -> Callable[[Tensor], Batch]:
    x, y = samples(client, size)
    return lambda rows: Batch(x[rows], y[rows], About.plain(client, rows + ROW * client))


def batch(client: int = 0, size: int = 6) -> Batch:
    return loader(client, size)(torch.arange(size))


def orders(topology: Topology, plan: Plan, index: int) -> list[list[Tensor]]:
    """The rows of each batch of each epoch, as the client draws them."""
    own = scene(topology, sizes=plan.sizes).client(index).streams.of("order")
    return [topology.rows(plan.sizes[index], plan, own) for _ in range(plan.epochs)]


def whole(net: nn.Module, own: Batch) -> tuple[float, dict[str, Tensor], dict[str, Tensor]]:
    """Loss, gradients and buffers of an uncut copy of the network, on one client's batch."""
    oracle = copy.deepcopy(net)
    value = F.cross_entropy(oracle(own.x), own.y)
    value.backward()
    return value.item(), gradients(oracle), dict(oracle.named_buffers())


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def state(stages: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Weights and buffers under the names of the uncut network."""
    return {name: value.clone() for stage in stages for name, value in stage.state_dict().items()}


@dataclass(frozen=True)
class Pairs(Defense):
    """Mixup of the smashed data and labels of clients 0 and 1, of 2 and 3, and so on; an odd one is left out."""

    mixes = True

    ratio: float = 0.3
    drawn: bool = False  # whether the mixer draws the ratio anew in each step

    def groups(self, clients):
        return clients // 2

    def mix(self, smashed, labels, generator):
        drawn = torch.rand((), generator=generator, dtype=torch.float64) if self.drawn else self.ratio
        shares = torch.tensor([drawn, 1 - drawn], dtype=torch.float64)
        soft = [m.carrying(F.one_hot(m.tensor, CLASSES).double()) for m in labels]

        def mixed(messages):
            return [
                replace(
                    a,
                    tensor=shares[0] * a.tensor + shares[1] * b.tensor,
                    share=a.share + b.share,
                    about=About.mixture([a.about, b.about], shares),
                )
                for a, b in zip(messages[::2], messages[1::2], strict=False)
            ]

        return mixed(smashed), mixed(soft)
