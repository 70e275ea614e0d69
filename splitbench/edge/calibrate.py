"""Fits the speeds of a device to microbenchmarks that ran on it, and writes its file."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from scipy.optimize import least_squares

from splitbench.core.errors import SplitbenchError
from splitbench.core.progress import tell
from splitbench.edge import device as devices
from splitbench.edge.ask import ask
from splitbench.edge.benches import SIZES, Bench, passes, products, small_layers, timed, update
from splitbench.edge.case import plain
from splitbench.edge.kinds import PRODUCTS
from splitbench.edge.measure import measure
from splitbench.edge.operation import Operation, Owner
from splitbench.edge.trace import Trace
from splitbench.runner.allocator import keep_memory

_LOADERS = {
    "torch": ("lenet5", (1, 28, 28)),
    "timm": ("resnet18", (3, 32, 32)),
    "transformers": ("roberta_small", (16,)),
}


@dataclass(frozen=True)
class Timed:
    """An operation, and how long it took."""

    operation: Operation
    seconds: float


def calibrate(name: str = "local") -> Path:
    """Runs the microbenchmarks, takes about a minute, and writes the user's file for the device; returns its place."""
    wanted = devices.here() if name == "local" else name
    figures = _unmeasured("laptop" if wanted == "local" else wanted)
    figures.update(measured_figures(), name=wanted)
    if wanted == "local":
        threads = torch.get_num_threads()
        figures["title"] = f"this machine ({platform.machine()}, {threads} thread{'s' if threads > 1 else ''})"
    folder = devices.user_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{wanted}.yaml"
        draft = folder / f".{wanted}.{os.getpid()}.yaml"
        draft.write_text(yaml.safe_dump(figures, sort_keys=False, allow_unicode=True), encoding="utf-8")
        devices.load(str(draft))  # a file that cannot be read back must not take the place of one that can
        draft.replace(path)
    except OSError as error:
        raise SplitbenchError(f"cannot write {folder}: {error}; set SPLITBENCH_DEVICES to a folder of yours") from error
    return path


def _unmeasured(name: str) -> dict[str, Any]:
    """The figures of a known device, from which this one takes what cannot be measured: power and the network."""
    known = devices.load(str(devices.find(name))).model_dump(mode="json")
    for key in ("reserved", "uplink", "downlink", "latency", "idle", "active", "radio"):
        if name == "laptop":
            known[key]["source"] = f"estimated: as the device 'laptop' ({known[key]['source']})"
    return known


def measured_figures() -> dict[str, Any]:
    today = time.strftime("%Y-%m-%d")
    threads = f"{torch.get_num_threads()} thread{'s' if torch.get_num_threads() > 1 else ''}"
    source = f"measured: splitbench profile --calibrate, {today}, torch {torch.__version__}, {threads}"
    torch.manual_seed(0)
    keep_memory()
    with torch.no_grad():
        overhead = _overhead()
        found = _run_all(overhead)
        call = timed(update(1024, parameters=4))  # what the optimizer does in Python, and the update of hardly anything
    rates = {kind: fit_product(of_kind, overhead) for kind, of_kind in found.items() if kind_is_product(kind)}
    streams = {
        kind: fit_stream(of_kind, call if kind == "update" else overhead / 2)
        for kind, of_kind in found.items()
        if not kind_is_product(kind)
    }
    large = rates["linear"][0]
    peak = max(rate for rate, _, _ in rates.values())
    copies = streams["copy"]
    bandwidth = copies[-1][1]
    speeds: dict[str, Any] = {}
    for kind, (rate, half, stream) in rates.items():
        speeds[kind] = {"product": _short(rate / large), "half": _short(half), "stream": _short(stream / bandwidth)}
    for kind, curve in streams.items():
        speeds[kind] = {"stream": [[_short(size), _short(rate / bandwidth)] for size, rate in curve]}
    speeds["update"]["call"] = _short(call)

    def figure(value: float) -> dict[str, Any]:
        return {"value": _short(value), "source": source}

    return {
        "threads": torch.get_num_threads(),
        "memory": figure(_memory()),
        "runtime": {name: figure(_resident_with(name)) for name in ("torch", "timm", "transformers")},
        "peak": figure(peak),
        "sustained": figure(large / peak),
        "bandwidth": figure(bandwidth),
        "overhead": figure(overhead),
        "uncertainty": {"value": 1.3, "source": "estimated: what predictions were off by where they were measured"},
        "speeds": speeds,
        "speeds_source": source,
    }


def kind_is_product(kind: str) -> bool:
    return kind.removesuffix("_backward") in PRODUCTS


def _overhead() -> float:
    """Seconds of one call in a network, with what Python and autograd add."""
    run, _ = small_layers()
    with Trace() as trace:
        run()
    return timed(run) / len(trace.operations)


def _run_all(overhead: float) -> dict[str, list[Timed]]:
    found: dict[str, list[Timed]] = defaultdict(list)
    benches: list[Bench] = [*products()]
    for at, bench in enumerate(benches):
        _note(found, bench)
        tell("products", at + 1, len(benches), "")
    del benches
    for at, size in enumerate(SIZES):
        for bench in passes(size):
            _note(found, bench)
        step = update(size / 4)
        moved = round(size / 4) * 7
        found["update"].append(Timed(Operation(Owner(), "update", "fused_adam", "update", 0, moved, 0), timed(step)))
        tell("passes", at + 1, len(SIZES), "")
    return found


def _note(found: dict[str, list[Timed]], bench: Bench) -> None:
    with Trace() as trace:
        bench()
    operation = max(trace.operations, key=lambda op: op.macs or op.bytes)
    found[operation.kind].append(Timed(operation, timed(bench)))


def fit_product(measured: Sequence[Timed], overhead: float) -> tuple[float, float, float]:
    """MACs per second, the depth at which half of it is reached, and bytes per second, by relative error."""
    macs, moved, depth, took = (
        np.array(column, dtype=float)
        for column in zip(
            *((t.operation.macs, t.operation.bytes, t.operation.depth, t.seconds) for t in measured), strict=True
        )
    )

    def predicted(p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        rate, half, stream = np.exp(p)
        share = np.where(depth > 0, depth / (depth + half), 1.0)
        took_so_long: np.ndarray[Any, Any] = np.maximum(macs / (rate * share), moved / stream) + overhead
        return took_so_long

    def error(p: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        off: np.ndarray[Any, Any] = np.log(predicted(p) / took)
        return off

    best = float(np.max(macs / took))
    starts = [(best * a, half, float(np.max(moved / took)) * b) for a in (1, 2) for half in (1.0, 50.0) for b in (1, 4)]
    fits = [least_squares(error, np.log(start), loss="soft_l1", f_scale=0.2) for start in starts]
    rate, half, stream = np.exp(min(fits, key=lambda fit: fit.cost).x)
    # Far beyond anything seen, a number means only that it does not matter.
    return float(rate), float(half) if half > 0.5 else 0.0, float(min(stream, 100 * np.max(moved / took)))


def fit_stream(measured: Sequence[Timed], call: float) -> list[tuple[float, float]]:
    """Bytes per second by bytes moved: the geometric mean of what was measured at about each size."""
    groups: dict[int, list[Timed]] = defaultdict(list)
    for one in sorted(measured, key=lambda t: t.operation.bytes):
        groups[int(np.searchsorted(SIZES, one.operation.bytes / 6))].append(one)
    curve = []
    for _, group in sorted(groups.items()):
        size = float(np.exp(np.mean([np.log(t.operation.bytes) for t in group])))
        rates = [t.operation.bytes / max(t.seconds - call, t.seconds / 4) for t in group]
        curve.append((size, float(np.exp(np.mean(np.log(rates))))))
    return curve


def _memory() -> float:
    import psutil

    return float(psutil.virtual_memory().total)


def _resident_with(package: str) -> float:
    """Of a fresh process that has loaded torch and what a network of this package needs, and has run a layer."""
    name, shape = _LOADERS[package]
    try:
        case = ask(model=name, shape="x".join(map(str, shape)))
        return float(measure({**plain(case), "only_before": True}, torch.get_num_threads()).resident)
    except SplitbenchError:
        if package == "torch":
            raise
        return _resident_with("torch")  # it is not installed here


def _short(value: float) -> float:
    return float(f"{value:.4g}")
