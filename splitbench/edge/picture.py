"""A profile as a picture: the roofline with every operation of the client on it, and what its memory is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from splitbench.core.drawing import FAINT, INK, STYLE, write
from splitbench.edge.memory import USES
from splitbench.edge.operation import Operation
from splitbench.edge.profile import Profile
from splitbench.edge.roofline import seconds_of
from splitbench.edge.tables import heading
from splitbench.edge.units import size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PHASES = {"forward": ("#1b6ca8", "o"), "backward": ("#e07b39", "s")}
COLOURS = ("#1b6ca8", "#7fb2d9", "#5b8c5a", "#e07b39", "#f0c08a", "#9a9a9a", "#c9c9c9", "#5c5c5c")


def draw(path: Path, profiles: Sequence[Profile], labels: Sequence[str]) -> None:
    """Write a PNG or SVG: the roofline of the first profile, and the memory of each as a stack."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(14, max(5.0, 2.2 + 0.45 * len(profiles))), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        _roofline(left, profiles[0])
        _memory(right, profiles, labels)
        figure.suptitle(heading(profiles[0]), x=0.01, ha="left", fontsize=11)
        write(figure, path)


def _roofline(axes: Axes, profile: Profile) -> None:
    device = profile.device
    top = device.peak.value * device.sustained.value
    counted = [op for op in profile.operations if op.macs and op.bytes]
    reach = [op.macs / op.bytes for op in counted] or [1.0]
    x = np.geomspace(min(0.02, *reach) / 2, max(100.0, *reach) * 2, 200)
    axes.plot(x, np.minimum(top, x * device.bandwidth.value), color=INK, linewidth=1.4)
    knee = top / device.bandwidth.value
    axes.text(knee, top * 1.5, f"sustained, {top / 1e9:.3g} GMAC/s", ha="right", va="bottom", color=FAINT)
    slope = np.sqrt(x[0] * knee)
    axes.text(slope, slope * device.bandwidth.value * 1.6, f"memory, {device.bandwidth.value / 1e9:.3g} GB/s",
              ha="right", va="bottom", color=FAINT)  # fmt: skip
    longest = max((seconds_of(op, device) for op in counted), default=1.0)
    for phase, (colour, mark) in PHASES.items():
        mine = [op for op in counted if op.phase == phase]
        axes.scatter(
            [op.macs / op.bytes for op in mine],
            [op.macs / seconds_of(op, device) for op in mine],
            s=[20 + 380 * seconds_of(op, device) / longest for op in mine],
            marker=mark, color=colour, alpha=0.55, edgecolor="white", linewidth=0.6, label=phase,
        )  # fmt: skip
    _name_the_longest(axes, counted, profile)
    axes.set(xscale="log", yscale="log", xlabel="MACs per byte moved", ylabel="MACs per second, as predicted")
    axes.set_ylim(top=top * 3)
    axes.set_title("Roofline: the larger a mark, the longer it takes")
    if any(op.phase == "backward" for op in counted):
        legend = axes.legend(loc="lower right")
        for handle in legend.legend_handles:
            handle.set_sizes([40])  # type: ignore[union-attr]


def _name_the_longest(axes: Axes, counted: Sequence[Operation], profile: Profile) -> None:
    """The three that take longest, each once."""
    named: dict[str, Operation] = {}
    for op in sorted(counted, key=lambda op: -seconds_of(op, profile.device)):
        named.setdefault(op.owner.path if op.owner.component == "layers" else op.owner.component, op)
    for at, (name, op) in enumerate(list(named.items())[:3]):
        place = (op.macs / op.bytes, op.macs / seconds_of(op, profile.device))
        line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.6}
        axes.annotate(name or op.name, place, xytext=(0, -32 - 20 * at), textcoords="offset points", ha="center",
                      fontsize=8.5, arrowprops=line)  # fmt: skip


def _memory(axes: Axes, profiles: Sequence[Profile], labels: Sequence[str]) -> None:
    parts = [{**p.peak.uses, "freed but kept": p.kept, "Python and torch": p.runtime} for p in profiles]
    names = [*USES, "freed but kept", "Python and torch"]
    places = np.arange(len(profiles))[::-1]
    left = np.zeros(len(profiles))
    for name, colour in zip(names, COLOURS, strict=True):
        widths = np.array([part[name] for part in parts], dtype=float) / 1e6
        axes.barh(places, widths, left=left, color=colour, label=name, height=0.6, edgecolor="white", linewidth=0.5)
        left += widths
    for place, end, profile in zip(places, left, profiles, strict=True):
        axes.text(end, place, f" {size(profile.resident)}", va="center", fontsize=8.5)
    free = profiles[0].device.available / 1e6
    if free < 3 * left.max():
        axes.axvline(free, color="#c1272d", linewidth=1.2)
        axes.text(free, places[0] + 0.45, " free on the device", color="#c1272d", va="bottom", fontsize=8.5)
    axes.set_xlim(0, max(left.max() * 1.18, free * 1.25 if free < 3 * left.max() else 0))
    axes.set_yticks(places, labels)
    axes.set_ylim(min(-0.6, len(profiles) / 2 - 2), max(len(profiles) - 0.4, len(profiles) / 2 + 1))
    axes.set_xlabel("MB at the client's peak")
    axes.set_title("Memory")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.14), ncols=4, fontsize=8.5)
