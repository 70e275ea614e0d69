"""Time, energy and what words say of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitbench.edge.device import Device, Speed, load
from splitbench.edge.kinds import BACKWARD, KINDS
from splitbench.edge.operation import Operation, Owner
from splitbench.edge.roofline import Range, joules, link_seconds, seconds_of, speed_of
from splitbench.edge.units import count, duration, energy, size

RPI4 = load("rpi4")
WHOLE = st.integers(0, 10**13)


def operation(kind: str = "linear", macs: int = 0, moved: int = 0, depth: int = 0) -> Operation:
    return Operation(Owner(), "forward", "mm", kind, macs, moved, 0, depth)


def test_the_longer_of_arithmetic_and_memory_and_a_call() -> None:
    plain: Device = RPI4.model_copy(update={"speeds": {"linear": Speed()}})
    rate, band, call = plain.peak.value * plain.sustained.value, plain.bandwidth.value, plain.overhead.value
    assert seconds_of(operation(macs=10**9), plain) == pytest.approx(1e9 / rate + call)
    assert seconds_of(operation(moved=10**9), plain) == pytest.approx(1e9 / band + call)
    assert seconds_of(operation(macs=10**9, moved=10**12), plain) == pytest.approx(1e12 / band + call)


def test_short_sums_are_slower() -> None:
    half: Device = RPI4.model_copy(update={"speeds": {"linear": Speed(half=30)}, "overhead": RPI4.overhead})
    short, long = (seconds_of(operation(macs=10**9, depth=depth), half) for depth in (30, 30_000))
    assert short == pytest.approx(2 * long, rel=0.01)


def test_a_stream_lies_between_the_points_that_are_known() -> None:
    curve: Device = RPI4.model_copy(update={"speeds": {"copy": Speed(stream=[(1e6, 4.0), (1e8, 1.0)])}})
    rates = [
        10**p / (seconds_of(operation("copy", moved=10**p), curve) - curve.overhead.value) for p in (5, 6, 7, 8, 9)
    ]
    shares = [rate / curve.bandwidth.value for rate in rates]
    assert shares == pytest.approx([4, 4, 2, 1, 1])


@given(WHOLE, WHOLE, st.sampled_from(KINDS), st.booleans())
def test_more_work_never_takes_less_time(macs: int, moved: int, kind: str, back: bool) -> None:
    kind += BACKWARD if back else ""
    one = seconds_of(operation(kind, macs, moved, 9), RPI4)
    assert 0 < one <= seconds_of(operation(kind, 2 * macs, moved, 9), RPI4)
    # A larger pass may leave a cache and be slower for each byte, never faster in all.
    assert one <= seconds_of(operation(kind, macs, 2 * moved, 9), RPI4)
    assert speed_of(RPI4, kind).product > 0


def test_the_wire_and_energy_by_hand() -> None:
    assert link_seconds(10**6, 0, RPI4) == pytest.approx(8e6 / 1e8 + 5e-3)
    assert link_seconds(0, 0, RPI4) == 0
    assert joules(2.0, 3.0, RPI4) == pytest.approx(2 * 5.2 + 3 * (2.7 + 0.5))
    assert (Range(2.0, 2.0).low, Range(2.0, 2.0).high) == (1.0, 4.0)


def test_numbers_as_an_engineer_reads_them() -> None:
    assert [count(n) for n in (0, 7, 999, 9_536, 1_814_073_344, 17.56e9)] == [
        "0",
        "7",
        "999",
        "9.54 k",
        "1.81 G",
        "17.6 G",
    ]
    assert [size(n) for n in (512, 999_700, 4_194_304)] == ["512 B", "1.00 MB", "4.19 MB"]
    assert [duration(s) for s in (0, 3e-6, 0.0123, 0.9996, 61, 200, 9000)] == [
        "0", "3 µs", "12.3 ms", "1 s", "61 s", "3.33 min", "2.5 h"
    ]  # fmt: skip
    assert [energy(j) for j in (0.05, 1.8, 2500)] == ["50 mJ", "1.80 J", "2.50 kJ"]
