"""A small network in double precision, laid out for any topology, and exchanges on it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.defense import Defense
from splitbench.core.registry import load, names
from splitbench.core.split import SplitModel, cut, same_network
from splitbench.core.topology import Batch, Topology
from splitbench.core.wire import Wire

CUTS = ("norm", "second", "pool")
CLASSES = 3


def every_topology() -> list[Topology]:
    return [load("topologies", name)() for name in names("topologies")]  # type: ignore[misc]


def label(thing: object) -> str:
    return type(thing).__name__


def network() -> nn.Sequential:
    """Batch norm on the client's side only: at the server, clients in one batch would normalise each other."""
    torch.manual_seed(0)
    layers = nn.Sequential()
    layers.add_module("first", nn.Conv2d(2, 4, 3, padding=1))
    layers.add_module("norm", nn.BatchNorm2d(4))
    layers.add_module("act", nn.ReLU(inplace=True))
    layers.add_module("second", nn.Conv2d(4, 5, 3, stride=2))
    layers.add_module("group", nn.GroupNorm(1, 5))
    layers.add_module("pool", nn.AdaptiveAvgPool2d(1))
    layers.add_module("flat", nn.Flatten())
    layers.add_module("head", nn.Linear(5, CLASSES))
    return layers.double()


def lay_out(topology: Topology, net: nn.Module, clients: int = 1, defense: Defense | None = None) -> list[SplitModel]:
    model = same_network(cut(net, topology.places("norm", CUTS)))
    return list(topology.lay_out((defense or Defense()).prepare(model), clients))


def batch(client: int = 0, size: int = 6) -> Batch:
    source = torch.Generator().manual_seed(100 + client)
    x = torch.rand(size, 2, 8, 8, generator=source, dtype=torch.float64)
    y = torch.randint(CLASSES, (size,), generator=source)
    return Batch(client, x, y, torch.arange(size) + 1000 * client)


def exchange(
    topology: Topology, models: Sequence[SplitModel], batches: Sequence[Batch], wire: Wire, shares: Sequence[float] = ()
) -> float:
    """One step of each client: together if the topology has them together, else one after the other."""
    shares = shares or [1 / len(models)] * len(models)
    if topology.simultaneous:
        return topology.exchange(models, batches, wire, F.cross_entropy, 0, shares)
    values = [topology.exchange(models, [b], wire, F.cross_entropy, i, shares) for i, b in enumerate(batches)]
    return sum(values) / len(values)


def whole(net: nn.Module, own: Batch) -> tuple[float, dict[str, Tensor], dict[str, Tensor]]:
    """Loss, gradients and buffers of an uncut copy of the network, on one client's batch."""
    oracle = copy.deepcopy(net)
    value = F.cross_entropy(oracle(own.x), own.y)
    value.backward()
    return value.item(), gradients(oracle), dict(oracle.named_buffers())


def gradients(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
