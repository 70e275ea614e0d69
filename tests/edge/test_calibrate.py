"""What is fitted to measurements gives back what they were made with."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from splitbench.core.errors import SplitbenchError
from splitbench.edge import calibrate as calibration
from splitbench.edge import device as devices
from splitbench.edge.benches import SIZES, Bench, _conv, timed
from splitbench.edge.calibrate import Timed, calibrate, fit_product, fit_stream
from splitbench.edge.operation import Operation, Owner
from splitbench.edge.roofline import seconds_of


def operation(kind: str, macs: int, moved: int, depth: int = 0) -> Operation:
    return Operation(Owner(), "forward", kind, kind, macs, moved, 0, depth)


def test_a_rate_a_depth_and_a_stream_are_found_again() -> None:
    rng = np.random.default_rng(0)
    rate, half, stream, call = 40e9, 60.0, 5e9, 1e-5
    measured = []
    for _ in range(30):
        depth, macs, moved = int(rng.integers(8, 2000)), int(10 ** rng.uniform(6, 9.5)), int(10 ** rng.uniform(5, 8))
        took = max(macs / (rate * depth / (depth + half)), moved / stream) + call
        measured.append(Timed(operation("linear", macs, moved, depth), took * rng.uniform(0.97, 1.03)))
    assert fit_product(measured, call) == pytest.approx((rate, half, stream), rel=0.1)


def test_a_stream_is_found_size_by_size() -> None:
    made = [
        Timed(operation("copy", 0, int(2 * size)), 2 * size / rate)
        for size, rate in zip(SIZES, (9e9, 8e9, 4e9, 2e9, 1e9), strict=True)
    ]
    curve = fit_stream(made, 0.0)
    assert [rate for _, rate in curve] == pytest.approx([9e9, 8e9, 4e9, 2e9, 1e9])


def test_the_shortest_of_several_calls_counts() -> None:
    x = torch.rand(200, 200)
    assert 0 < timed(lambda: x @ x, least=0.002) < 0.05


def few() -> Iterator[Bench]:
    for n in (32, 64, 128):
        yield functools.partial(torch.mm, torch.rand(n, n), torch.rand(n, n))
        yield from _conv(4, 16, 8, n, 3)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A calibration of a few benches, none of them in another process."""
    monkeypatch.setenv("SPLITBENCH_DEVICES", str(tmp_path / "devices"))
    monkeypatch.setattr(calibration, "SIZES", (0.06e6,))
    monkeypatch.setattr(calibration, "products", few)
    monkeypatch.setattr(calibration, "timed", lambda bench: timed(bench, least=0.0005))
    monkeypatch.setattr(calibration, "_resident_with", lambda package: 3e8)
    return tmp_path / "devices"


def test_calibrating_writes_a_device_file_of_the_users(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = calibrate()
    assert path == quick / "local.yaml"
    made = devices.load("local")
    assert made.threads == torch.get_num_threads()
    assert all(
        f.source.startswith("measured: splitbench profile --calibrate")
        for f in (made.peak, made.bandwidth, made.overhead)
    )
    assert made.idle.source.startswith("estimated: as the device 'laptop'")
    assert {"linear", "conv", "norm", "copy", "update"} <= set(made.speeds)
    assert 0 < seconds_of(operation("linear", 10**9, 10**6, 100), made) < 10
    # The same command on a board with a name writes that board's file, and keeps what cannot be measured.
    monkeypatch.setattr(devices, "here", lambda: "rpi4")
    assert calibrate() == quick / "rpi4.yaml"
    board = devices.load("rpi4")
    assert board.title == "Raspberry Pi 4 Model B, 8 GB"
    assert board.peak.source.startswith("measured")
    assert board.active.value == 5.2


def test_a_folder_that_cannot_be_written_is_told(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measured_figures", dict)
    quick.write_text("a file in the way")
    with pytest.raises(SplitbenchError, match="set SPLITBENCH_DEVICES"):
        calibrate()
