"""One exchange of every topology, model and defense, and an attack's targets, on a device that is not the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from splitbench.core import device, registry
from splitbench.core.component import Part
from splitbench.core.member import Client
from splitbench.core.model import Model, build_network
from splitbench.core.party import SERVER, client
from splitbench.core.randomness import generator
from splitbench.core.schedule import together
from splitbench.core.wire import Wire
from splitbench.defenses._shuffling.tokens import Shuffling
from splitbench.plan import components
from splitbench.plan.cells import Counts, RunSpec, Training
from splitbench.plan.feasible import load_data
from splitbench.runner.inference import infer, smash
from splitbench.runner.parties import one_step
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.targets import observe
from splitbench.runner.train import begin_learning
from tests.attacks._elsewhere import ELSEWHERE, Elsewhere, There

SMALL = {
    "resnet18": ({"width": 0.1}, "stem"),
    "resnet50": ({"width": 0.1}, "stem"),
    "wide_resnet50_2": ({"width": 0.1}, "stem"),
    "vgg16": ({"width": 0.1, "hidden": 16, "grid": 1}, "pool1"),
    "vit_tiny": ({"patch": 7, "depth": 1, "width": 12}, "embed"),
    "pit_tiny": ({"patch": 7, "stride": 7}, "embed"),
    "t2t_vit": ({"patch": 4, "depth": 1, "width": 12}, "embed"),
    "lenet5": ({}, "conv1"),
}


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    with Elsewhere(), device.using(ELSEWHERE):
        yield


def spec(
    model: str = "lenet5", topology: str = "vanilla", defense: str | None = None, clients: int = 1, cut: str = ""
) -> RunSpec:
    settings, place = SMALL[model]

    def part(kind: registry.Kind, name: str, given: dict[str, object] | None = None) -> Part:
        found, mistakes = components.resolve(kind, {name: given or {}}, kind)
        assert found is not None, mistakes
        return found

    data = part("data", "fashion_mnist_mini")
    return RunSpec(
        data=data,
        data_digest=load_data(data).digest,
        model=part("models", model, dict(settings)),
        cut=cut or place,
        topology=part("topologies", topology),
        defenses=(part("defenses", defense),) if defense and defense != "none" else (),
        training=Training(epochs=1, batch=4, augment=("flip", "crop"), label_smoothing=0.1),
        samples=Counts(private=16, auxiliary=4, evaluation=4),
        clients=clients,
    )


def step(prepared: Prepared) -> None:
    """One exchange with updates, of all clients that take part in a step."""
    begin_learning(prepared)
    members = prepared.members
    batches = {}
    for party in prepared.plan.clients if prepared.topology.simultaneous else [client(0)]:
        me = members[party]
        assert isinstance(me, Client)
        assert me.load is not None
        batches[party] = me.load(torch.arange(4))
    together(one_step(prepared.topology, members, prepared.plan, batches), Wire())
    assert all(isinstance(p.data, There) for member in members.values() for s in member.stages for p in s.parameters())


@pytest.mark.parametrize("topology", registry.names("topologies"))
def test_an_exchange_of_every_topology(topology: str) -> None:
    step(prepare(spec(topology=topology, clients=2)))


@pytest.mark.parametrize("model", sorted(SMALL))
def test_an_exchange_of_every_image_model(model: str) -> None:
    step(prepare(spec(model=model)))


OTHERS = {
    "roberta_small": ({"vocabulary": 300, "layers": 1, "width": 8, "heads": 2}, torch.int64),
    "roberta_base": ({"vocabulary": 300, "length": 16}, torch.int64),
    "minilm": ({"weights": "none"}, torch.int64),
    "field_mlp": ({}, torch.float32),
    "difm": ({}, torch.float32),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_every_model_of_texts_and_tables_runs_there_and_back(name: str) -> None:
    settings, dtype = OTHERS[name]
    part, mistakes = components.resolve("models", {name: settings}, "model")
    assert part is not None, mistakes
    model: Model = components.build(part)
    split = model.split(build_network(model, (8,), 2), (next(iter(model.cuts)),))
    x = torch.ones(2, 8, dtype=dtype).to(ELSEWHERE)
    for stage in split.stages:
        stage.to(ELSEWHERE)
    split.joined(x).sum().backward()  # type: ignore[no-untyped-call]
    assert all(isinstance(p.data, There) for stage in split.stages for p in stage.parameters())


def test_no_model_is_left_out() -> None:
    assert {*SMALL, *OTHERS} == set(registry.names("models"))


@pytest.mark.parametrize("defense", registry.names("defenses"))
def test_an_exchange_of_every_defense(defense: str) -> None:
    shuffles = issubclass(registry.load("defenses", defense), Shuffling)
    step(prepare(spec(model="vit_tiny" if shuffles else "lenet5", defense=defense)))


@pytest.mark.parametrize("topology", [name for name in registry.names("topologies") if name != "standalone"])
def test_targets_queries_and_answers_are_there_too(topology: str) -> None:
    prepared = prepare(spec(topology=topology, defense="gaussian", clients=2))
    samples = prepared.evaluation
    for party in (SERVER, client(1)):
        seen = observe(prepared, party, samples.x, samples.y, prepared.allocation.evaluation, rounds=2)
        assert isinstance(seen.targets, There)
        assert seen.targets.shape[:2] == (2, 4)
    assert isinstance(infer(prepared, samples.x, 0, generator(0)), There)
    assert isinstance(smash(prepared, torch.rand(3, 1, 28, 28).to(ELSEWHERE), generator(0)), There)
