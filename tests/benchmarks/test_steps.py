"""What cutting costs, as a ratio to the uncut network's step: `pytest tests/benchmarks --benchmark-only -s`.

Steps of both kinds alternate and CPU time is counted, so that what else the machine does falls on both alike; the
least of each is compared.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About
from splitbench.core.schedule import together
from splitbench.core.split import SplitModel, cut, same_network
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from splitbench.plan.cells import Training
from splitbench.runner.learner import Optimised
from splitbench.runner.parties import assemble, one_step
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


TRAINING = Training(optimizer="adam", lr=1e-3)


def uncut_step(net: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    net.train()
    learner = Optimised([net], TRAINING, 1000)

    def step() -> None:
        learner.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        loss.item()
        learner.step()

    return step


def split_step(topology: Topology, model: SplitModel, clients: int, x: Tensor, y: Tensor) -> Callable[[], None]:
    """One exchange as a training takes it: every party with its optimizer and its own random numbers."""
    model.train()
    rows = torch.arange(len(x)).chunk(clients)
    plan = Plan(tuple(map(len, rows)), batch=len(rows[0]))
    members, plan = assemble(model, plan, Defense(), Context(clients=clients), 0, F.cross_entropy)
    for member in members.values():
        member.learner = Optimised(member.stages, TRAINING, 1000)
    parts = {party: (x[mine], y[mine], mine) for party, mine in zip(plan.clients, rows, strict=True)}
    wire = Wire()

    def step() -> None:
        batches = {party: Batch(x, y, About.plain(party.index, mine)) for party, (x, y, mine) in parts.items()}
        together(one_step(topology, members, plan, batches), wire, lambda party: members[party].at_work())

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
    steps = (uncut_step(uncut, x, y), split_step(topology, model, clients, x, y))
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
