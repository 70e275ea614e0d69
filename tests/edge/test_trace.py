"""What is counted without numbers is what runs with them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from splitbench.edge.case import Case, stage
from splitbench.edge.step import Step, _step
from tests.edge._cases import case

CASES = [
    case("resnet18", "layer1", "nopeek", shape="3x32x32", batch=4),
    case("vit_tiny", "block1", shape="3x32x32", batch=2),
    case("pit_tiny", "embed", "gaussian", shape="3x32x32", batch=4),
    case({"vgg16": {"width": 0.1, "hidden": 16, "grid": 1}}, "pool2", shape="3x32x32", batch=2),
    case("lenet5", "fc1", "dcor", batch=4, topology="u_shaped"),
    case("lenet5", "conv2", work="inference"),
    case("lenet5", "conv2", topology="splitfed", clients=2),
    case("lenet5", "conv2", topology="standalone"),
]


def said(case: Case) -> str:
    return f"{case.model.name}-{case.cut}-{case.defense}-{case.topology.name}-{case.work}"


def work(step: Step) -> Counter[tuple[object, ...]]:
    return Counter((op.owner, op.phase, op.name, op.macs, op.read, op.written) for op in step.operations("client"))


@pytest.mark.parametrize("case", CASES, ids=said)
def test_without_numbers_the_same_operations_and_the_same_memory(case: Case) -> None:
    with torch.random.fork_rng(devices=[]):
        sketched, real = _step(case, stage(case, "meta")), _step(case, stage(case, "cpu"))
    assert work(sketched) == work(real)
    assert sum(op.macs for op in sketched.trace.operations) == sum(op.macs for op in real.trace.operations)
    for party in ("client", "server"):
        assert sketched.trace.ledger.peak(party) == real.trace.ledger.peak(party)


def test_twice_is_the_same() -> None:
    one, other = (_step(CASES[0], stage(CASES[0])) for _ in range(2))
    assert work(one) == work(other)
    assert one.trace.ledger.peak("client") == other.trace.ledger.peak("client")


def test_a_backward_operation_belongs_to_who_ran_the_forward_one() -> None:
    step = _step(CASES[0], stage(CASES[0]))
    forward, backward = (
        {(op.owner.party, op.owner.component) for op in step.trace.operations if op.phase == phase and op.macs}
        for phase in ("forward", "backward")
    )
    assert forward == backward == {("client", "layers"), ("client", "penalty"), ("server", "layers")}
    paths = {op.owner.path for op in step.operations("client") if op.phase == "backward" and "conv" in op.kind}
    assert paths == {"conv1", *(f"layer1.{i}.conv{j}" for i in (0, 1) for j in (1, 2))}


def test_what_a_defense_hangs_on_the_way_back_is_the_defenses() -> None:
    pytest.importorskip("opacus")
    plain, sanitised = (
        sum(op.macs for op in _step(c, stage(c)).operations() if op.owner.component == "layers")
        for c in (case("lenet5", "conv2"), case("lenet5", "conv2", "dpsg"))
    )
    assert plain == sanitised
    step = _step(c := case("lenet5", "conv2", "dpsg"), stage(c))
    assert sum(op.macs for op in step.operations() if op.owner.component == "defense" and op.phase == "backward") > 0


def test_several_clients_at_once_are_counted_as_one_each() -> None:
    alone, together = (_step(c, stage(c)) for c in (case(topology="parallel"), case(topology="parallel", clients=3)))
    assert sum(op.macs for op in alone.operations()) == sum(op.macs for op in together.operations())
    assert alone.traffic == together.traffic
    server = [sum(op.macs for op in step.operations("server")) for step in (alone, together)]
    assert server[1] == 3 * server[0]
