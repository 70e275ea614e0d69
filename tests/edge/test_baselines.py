"""What the defenses of the shuffling paper's table VI cost at the edge."""

from __future__ import annotations

import math

import pytest
import torch

from splitbench.core.errors import CellError
from splitbench.edge.case import stage
from splitbench.edge.device import load
from splitbench.edge.profile import Profile, profile
from splitbench.edge.step import _step
from tests.edge._cases import case

VIT = {"vit_tiny": {"patch": 8, "width": 48, "depth": 2}}


def cost(*defenses: object, work: str = "training", **training: object) -> Profile:
    return profile(case(VIT, "block1", *defenses, shape="3x64x64", work=work, training=training), load("rpi4"))


def test_the_simulated_attacker_is_counted_with_all_that_it_does_and_keeps() -> None:
    """By hand: its convolutions on the grid of tokens, forward twice, backward once for its own weights and once for
    the client."""
    width, blocks, batch, grid = 16, 1, 8, 64
    adversarial = {"adversarial": {"width": width, "blocks": blocks}}
    penalty = next(share for share in cost(adversarial).shares if share.component == "penalty")
    prefix, enter, block, leave = 48 * width, grid * 9 * 48 * width, grid * 9 * width**2, grid * width * 3 * 8 * 8
    once = batch * (prefix + enter + blocks * block + leave)
    squares = penalty.forward - 2 * once
    assert 0 <= squares < 0.01 * once, "errors and norms aside"
    # Backward on its own weights, but for the slope of what entered, which it does not need; then on what entered only.
    first = batch * (prefix + enter)
    assert penalty.backward == pytest.approx(2 * once - first + once, rel=0.01)
    weights = 48 * width + width + 9 * 48 * width + width + blocks * (9 * width**2 + 3 * width) + 2 * width
    weights += width * 192 + 192
    assert penalty.memory >= 3 * 4 * weights, "itself, and two moments of Adam for each weight"


def test_the_attacker_is_there_before_the_step_begins() -> None:
    bare, defended = cost().record(), cost("adversarial").record()
    assert defended["memory_weights"] > bare["memory_weights"]
    assert defended["memory_peak"] > bare["memory_peak"]
    assert defended["bytes_up_step"] == bare["bytes_up_step"], "nothing more is sent"


@pytest.mark.parametrize("defense", ["adversarial", "blur", "dp_gaussian", "patch_shuffle"])
def test_without_numbers_it_costs_the_same(defense: str) -> None:
    asked = case(VIT, "block1", defense, shape="3x64x64")
    with torch.random.fork_rng(devices=[]):
        sketched, real = (_step(asked, stage(asked, device)) for device in ("meta", "cpu"))
    for step in (sketched, real):
        assert step.operations("client")
    count = [sum(op.macs for op in step.operations("client")) for step in (sketched, real)]
    assert count[0] == count[1]
    # Without numbers, an index drawn on the CPU and the loss of images laid out differently take other workspace.
    peaks = [step.trace.ledger.peak("client").total for step in (sketched, real)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.06)


def test_inference_trains_no_attacker() -> None:
    assert (
        cost("adversarial", work="inference").record()["macs_forward"]
        == cost(work="inference").record()["macs_forward"]
    )


def test_a_frozen_client_has_no_way_back_and_no_optimizer() -> None:
    learning, frozen = cost().record(), cost(frozen=True).record()
    assert frozen["macs_backward"] == frozen["memory_optimizer"] == frozen["memory_gradients"] == 0
    assert learning["macs_backward"] > learning["macs_forward"] == frozen["macs_forward"]
    assert frozen["bytes_down_step"] == 0
    assert frozen["server_macs_backward"] == learning["server_macs_backward"] > 0
    with pytest.raises(CellError, match="the client's layers are frozen"):
        cost("adversarial", frozen=True)


@pytest.mark.parametrize("defense", ["patch_shuffle", "batch_shuffle"])
def test_shuffling_costs_at_most_a_twentieth_of_what_a_frozen_client_costs(defense: str) -> None:
    large = {"vit_tiny": {"patch": 16, "depth": 1, "width": 768, "heads": 12}}
    asked = (case(large, "block1", *d, shape="3x224x224", batch=2, training={"frozen": True}) for d in ((), (defense,)))
    frozen, shuffled = (profile(one, load("rpi4")) for one in asked)
    assert shuffled.record()["macs_forward"] == frozen.record()["macs_forward"]
    assert shuffled.record()["macs_backward"] == 0
    assert shuffled.forward < 1.05 * frozen.forward


def test_a_spectrum_costs_its_butterflies_and_nothing_else() -> None:
    """n^2 / 2 * log2(n^2) complex products per channel, four real ones each: the paper counts the complex ones."""
    record = cost("spectral_shuffle").record()
    butterflies = 3 * 64 * 64 // 2 * math.log2(64 * 64)
    assert record["macs_forward"] == 8 * 4 * butterflies
    assert record["client_parameters"] == record["macs_backward"] == 0
    assert record["note"] == ""
