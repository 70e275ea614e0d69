"""Bytes equal what the wire counts in a real training."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.edge.ask import ask
from splitbench.edge.device import load
from splitbench.edge.profile import profile
from splitbench.runner.api import train


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("topology", ["vanilla", "u_shaped", "parallel", "splitfed", "standalone"])
def test_a_training_sends_what_was_predicted(topology: str, clients: int, tmp_path: Path) -> None:
    private, training = 50, {"epochs": 2, "batch": 16}
    outcome = train(
        "none", store=tmp_path, model="lenet5", cut="conv2", topology=topology, clients=clients, training=training,
        samples={"private": private, "auxiliary": 8, "evaluation": 4},
    )  # fmt: skip
    assert outcome.status == "done", outcome.reason
    case = ask(model="lenet5", cut="conv2", topology=topology, clients=clients, training=training, samples=private)
    found = profile(case, load("rpi4")).volumes
    assert (found.training.up, found.training.down) == (outcome.costs["bytes_up"], outcome.costs["bytes_down"])
    if clients == 1:
        assert found.round == found.epoch
        assert 2 * found.epoch.up == found.training.up


def test_a_step_by_hand() -> None:
    case = ask(model="lenet5", cut="conv1", shape="1x28x28", training={"batch": 5}, samples=10)
    step = profile(case, load("rpi4")).volumes.step
    smashed = 4 * 5 * 6 * 28 * 28
    assert (step.up, step.down) == (smashed + 8 * 5, smashed)  # with the labels, as int64


def test_inference_only_sends() -> None:
    case = ask(model="lenet5", cut="conv1", shape="1x28x28", training={"batch": 5}, samples=12, work="inference")
    found = profile(case, load("rpi4")).volumes
    each = 4 * 6 * 28 * 28
    assert (found.step.up, found.step.down) == (5 * each, 0)
    assert found.round.up == 12 * each
