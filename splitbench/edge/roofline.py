"""Seconds and joules of operations on a device: the longer of arithmetic and memory, and a little for each call."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from splitbench.edge.device import Device, Speed, usual_speeds
from splitbench.edge.kinds import BACKWARD
from splitbench.edge.operation import Operation


@dataclass(frozen=True)
class Range:
    """A prediction, and between what it may lie."""

    value: float
    factor: float

    @property
    def low(self) -> float:
        return self.value / self.factor

    @property
    def high(self) -> float:
        return self.value * self.factor


def speed_of(device: Device, kind: str) -> Speed:
    usual = _usual()
    for table in (device.speeds, usual):
        if kind in table:
            return table[kind]
    forward = kind.removesuffix(BACKWARD)
    return device.speeds.get(forward) or usual.get(forward) or Speed()


@functools.cache
def _usual() -> Mapping[str, Speed]:
    return usual_speeds()


def seconds_of(operation: Operation, device: Device) -> float:
    speed = speed_of(device, operation.kind)
    rate = device.peak.value * device.sustained.value * speed.product
    if operation.depth and speed.half:
        rate *= operation.depth / (operation.depth + speed.half)
    arithmetic = operation.macs / rate
    memory = operation.bytes / (device.bandwidth.value * _stream(speed, operation.bytes))
    return max(arithmetic, memory) + (device.overhead.value if speed.call is None else speed.call)


def _stream(speed: Speed, moved: int) -> float:
    """The share of the bandwidth at this size, between the points that are known as a straight line of logarithms."""
    if isinstance(speed.stream, float):
        return speed.stream
    sizes, shares = zip(*speed.stream, strict=True)
    return float(np.exp(np.interp(np.log(max(moved, 1)), np.log(sizes), np.log(shares))))


def seconds(operations: Iterable[Operation], device: Device) -> float:
    return sum(seconds_of(operation, device) for operation in operations)


def link_seconds(up: int, down: int, device: Device) -> float:
    """On the wire: both directions, one after the other, each with the latency of one message."""
    there = up * 8 / device.uplink.value + device.latency.value if up else 0.0
    back = down * 8 / device.downlink.value + device.latency.value if down else 0.0
    return there + back


def joules(computing: float, on_the_wire: float, device: Device) -> float:
    """All that the device draws while it computes and while it sends or receives; not while it waits for a server."""
    return computing * device.active.value + on_the_wire * (device.idle.value + device.radio.value)
