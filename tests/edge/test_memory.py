"""Memory by hand, and beside the resident set of a fresh process."""

from __future__ import annotations

import sys

import pytest
import torch

from splitbench.edge.case import plain
from splitbench.edge.measure import measure
from splitbench.edge.memory import Ledger
from splitbench.edge.operation import Owner
from splitbench.edge.step import take_step
from tests.edge._cases import case


def test_a_storage_counts_once_however_many_tensors_share_it() -> None:
    ledger, x = Ledger(), torch.zeros(100)
    ledger.see([x, x[:50], x.view(10, 10)], Owner())
    assert ledger.peak("client").total == 400


def test_what_was_freed_is_not_in_the_peak_of_what_follows() -> None:
    ledger = Ledger()
    x = torch.zeros(100)
    ledger.see([x], Owner())
    del x
    y, z = torch.zeros(30), torch.zeros(30)
    ledger.see([y, z], Owner())
    assert ledger.peak("client").total == 400
    ledger.see([w := torch.zeros(60)], Owner())
    assert ledger.peak("client").total == 480
    assert ledger.peak("server").total == 0
    del w


def test_a_linear_client_by_hand() -> None:
    """conv1 of LeNet-5 on one grey image each: what it must hold when its only slope is computed."""
    n, pixels = 8, 28 * 28
    peak = take_step(case("lenet5", "conv1", batch=n)).trace.ledger.peak("client")
    parameters = 4 * (6 * 25 + 6)
    assert peak.uses["weights"] == parameters
    assert peak.uses["optimizer"] == 2 * parameters  # Adam's two moments
    # The batch, its labels, and the gradient that came back.
    assert peak.uses["inputs"] == 4 * n * pixels + 8 * n + 4 * n * 6 * pixels
    assert peak.uses["activations"] == 0  # a convolution keeps its input, which is the batch
    sent, slopes = 4 * n * 6 * pixels, parameters
    assert peak.uses["gradients"] + peak.uses["workspace"] == sent + slopes
    assert peak.total == sum(peak.uses.values()) == sum(peak.components.values())


def test_a_batch_twice_as_large_doubles_what_depends_on_it() -> None:
    small, large = (
        take_step(case("resnet18", "layer1", shape="3x32x32", batch=n)).trace.ledger.peak("client") for n in (16, 32)
    )
    # Batch norm's statistics and the number of its batches do not grow.
    assert large.uses["activations"] == pytest.approx(2 * small.uses["activations"], rel=0.01)
    assert large.uses["weights"] == small.uses["weights"]


def test_sgd_keeps_half_of_what_adam_keeps_and_inference_nothing() -> None:
    adam, sgd = (take_step(case(training={"optimizer": name})).trace.ledger.peak("client") for name in ("adam", "sgd"))
    assert adam.uses["optimizer"] == 2 * sgd.uses["optimizer"] > 0
    inference = take_step(case(work="inference")).trace.ledger.peak("client")
    assert [inference.uses[use] for use in ("optimizer", "gradients", "activations")] == [0, 0, 0]
    assert inference.total < adam.total


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a resident set is read from /proc")
@pytest.mark.parametrize(
    ("model", "cut", "shape"),
    [("lenet5", "conv2", "1x28x28"), pytest.param("vit_tiny", "block1", "3x32x32", marks=pytest.mark.slow)],
)
def test_the_resident_set_of_a_fresh_process_is_within_a_tenth(model: str, cut: str, shape: str) -> None:
    asked = case(model, cut, shape=shape, batch=64)
    real = measure(plain(asked), 1, frugal=True, seconds=0.1)
    predicted = real.before + take_step(asked).trace.ledger.peak("client").total
    assert predicted == pytest.approx(real.resident, rel=0.1)
