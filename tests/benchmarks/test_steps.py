"""What cutting costs, as a ratio to the uncut network's step: `pytest tests/benchmarks --benchmark-only -s`.

Steps of both kinds alternate and CPU time is counted, so that what else the machine does falls on both alike; the
least of each is compared.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.split import SplitModel, cut, same_network
from splitbench.core.topology import Batch, Topology
from splitbench.core.wire import Wire
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.vanilla import Vanilla

ROUNDS, MOST_ROUNDS = 4, 24
NETWORKS = {
    "resnet18": ("resnet18", {}, "bn1"),
    "vit_tiny": ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 4}, "norm_pre"),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Idle threads of a pool spin, and their time would count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def build(name: str) -> tuple[nn.Module, SplitModel]:
    from splitbench.models._timm.package import timm  # slow to import, and a plain run of the tests skips this file

    torch.manual_seed(0)
    model, options, place = NETWORKS[name]
    uncut = timm.create_model(model, num_classes=10, **options)
    return uncut, same_network(cut(copy.deepcopy(uncut), [place]))


def data(size: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    x = torch.rand(size, 3, 32, 32, generator=source).contiguous(memory_format=torch.channels_last)
    return x, torch.randint(10, (size,), generator=source)


def optimizer(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9, fused=True)


def uncut_step(net: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    optimise = optimizer(net)

    def step() -> None:
        optimise.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimise.step()

    return step


def split_step(topology: Topology, models: Sequence[SplitModel], x: Tensor, y: Tensor) -> Callable[[], None]:
    stages = {id(stage): stage for model in models for stage in model.stages}.values()
    optimisers = [optimizer(stage) for stage in stages]
    rows = torch.arange(len(x)).chunk(len(models))
    batches = [Batch(i, x[mine], y[mine], mine) for i, mine in enumerate(rows)]
    wire = Wire()

    def step() -> None:
        for optimise in optimisers:
            optimise.zero_grad()
        topology.exchange(models, batches, wire, F.cross_entropy, 0, [1 / len(models)] * len(models))
        for optimise in optimisers:
            optimise.step()

    return step


def least_seconds(whole: Callable[[], None], split: Callable[[], None], limit: float) -> tuple[float, float]:
    """The least of each, over more rounds while the ratio is above the limit: only noise goes away by that."""
    least = {whole: math.inf, split: math.inf}
    for step in least:
        step()  # the first one allocates
    for number in range(MOST_ROUNDS):
        for step in list(least)[:: -1 if number % 2 else 1]:  # neither is always the one that comes after
            begin = time.process_time()
            step()
            least[step] = min(least[step], time.process_time() - begin)
        if number + 1 >= ROUNDS and least[split] <= limit * least[whole]:
            break
    return least[whole], least[split]


def compare(benchmark, name: str, topology: Topology, clients: int, size: int, limit: float) -> float:
    uncut, model = build(name)
    x, y = data(size)
    steps = (uncut_step(uncut, x, y), split_step(topology, topology.lay_out(model, clients), x, y))
    whole, split = benchmark.pedantic(least_seconds, (*steps, limit), rounds=1)
    benchmark.extra_info.update(uncut_seconds=whole, split_seconds=split, ratio=split / whole)
    print(f"\n{name}, {clients} clients, {size} images: uncut {whole:.3f} s, split {split:.3f} s, {split / whole:.3f}")
    return split / whole


@pytest.mark.parametrize("name", NETWORKS)
def test_a_vanilla_step_costs_what_the_uncut_step_does(benchmark, name):
    assert compare(benchmark, name, Vanilla(), clients=1, size=128, limit=1.05) <= 1.05


@pytest.mark.parametrize("name", NETWORKS)
def test_ten_clients_at_once_cost_little_more_than_one_batch_of_all(benchmark, name):
    assert compare(benchmark, name, Parallel(), clients=10, size=130, limit=1.25) <= 1.25
