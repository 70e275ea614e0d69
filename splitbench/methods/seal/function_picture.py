"""A periodic function as a picture: over a period, the basis made of it, and the energy that gathers there."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from splitbench.core.drawing import FAINT, STYLE, write
from splitbench.methods.seal.function import Checked, Compaction, periodic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN, DCT, ZERO = "#1b6ca8", "#e07b39", "#c1272d"


def draw(
    path: Path, function: Any, row: Checked, own: Compaction | None, dct: Compaction, over: str, about: str
) -> None:
    """Write three panels to a PNG or SVG file."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context({**STYLE, "axes.titlepad": 10}):
        figure = Figure(figsize=(15, 5.2), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, wspace=0.03))
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1, 1.15))
        _function(left, function, row)
        _basis(figure, middle, function, row, over)
        _energy(right, row, own, dct)
        # The command prints a long sum of cosines in full.
        spaced = re.sub(r"\)([+-])", r") \1 ", re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.3g}", row.function))
        spaced = textwrap.shorten(spaced, 150, placeholder=" …")
        figure.suptitle(f"f(x) = {spaced}", x=0.012, ha="left", fontsize=13)
        figure.text(0.988, -0.005, f"Energy of {about}", ha="right", va="top", fontsize=8, color=FAINT)
        write(figure, path, bbox_inches="tight", pad_inches=0.15)


def _function(axes: Axes, function: Any, row: Checked) -> None:
    import torch

    def at(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = function.at(torch.from_numpy(x)).double().numpy()
        return values

    n = row.size
    x = np.linspace(0, 2 * math.pi, 2001)
    places = np.unique([k * (2 * j + 1) % (4 * n) for k in range(n) for j in range(n)])
    nodes = places * (2 * math.pi / (4 * n))
    values = at(nodes)
    zero = np.abs(values) < 1e-12 * np.abs(values).max()
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.plot(x, at(x), color=OWN, linewidth=1.8, zorder=2)
    axes.plot(nodes[~zero], values[~zero], "o", color="white", markeredgecolor=OWN, markersize=3.6, zorder=3,
              label=f"nodes ({len(nodes)} distinct)")  # fmt: skip
    if zero.any():
        axes.plot(nodes[zero], values[zero], "o", color=ZERO, markersize=6, zorder=4, label="nodes where f is 0")
    axes.set_xticks([i * math.pi / 2 for i in range(5)], ["0", "T/4", "T/2", "3T/4", "T"])
    axes.set_xlim(-0.08, 2 * math.pi + 0.08)
    axes.set_ylabel("f(x)")
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.margins(y=0.06)
    axes.set_title(f"One period, and the nodes for N = {n}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, handletextpad=0.3)


def _basis(figure: Figure, axes: Axes, function: Any, row: Checked, over: str) -> None:
    if row.valid:
        shown = periodic().basis(function, row.size, over).numpy()
        axes.set_title(f"Basis Q, {row.size} x {row.size}, orthonormal over {over}")
    else:
        shown = periodic().sampled(function, row.size).numpy()
        axes.set_title(f"No basis: the sampled matrix C, {row.size} x {row.size}", color=ZERO)
    limit = float(np.abs(shown).max()) or 1.0
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_ylabel("basis vector k")
    reasons = textwrap.fill("; ".join(row.problems), 48)
    axes.set_xlabel("sample n" if row.valid else f"sample n\n{reasons}")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03, panchor=False)
    axes.set_anchor("N")  # level with its neighbours
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _energy(axes: Axes, row: Checked, own: Compaction | None, dct: Compaction) -> None:
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    curves = [(dct, DCT, "cos, the DCT", "--")]
    if own and row.function != "cos":
        curves.append((own, OWN, "f", "-"))
    axes.axhline(0.7, color=FAINT, linewidth=0.8, linestyle=":")
    for found, colour, label, line in curves:
        if len(curves) == 1 or found is own:
            axes.fill_between(found.shares, found.low, found.high, color=colour, alpha=0.15, linewidth=0)
        else:  # two fills would mix to a third colour
            for edge in (found.low, found.high):
                axes.plot(found.shares, edge, color=colour, linewidth=1, linestyle=(0, (1, 1.5)))
        kept = found.kept[0.7][0]
        told = f"{label}: {kept:,} of {row.size**2:,} at ω = 0.7"
        axes.plot(found.shares, found.median, color=colour, linewidth=2, linestyle=line, label=told)
        axes.plot([kept / row.size**2], [found.median[np.searchsorted(found.shares, kept / row.size**2)]], "o",
                  color=colour, markersize=5)  # fmt: skip
    axes.text(1, 0.69, "ω = 0.7", ha="right", va="top", fontsize=8.5, color=FAINT)
    axes.set_xscale("log")
    axes.set_xlim(1 / row.size**2, 1)
    axes.set_ylim(0, 1.015)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g} %"))
    axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.minorticks_off()
    axes.set_xlabel("share of the coefficients, in zig-zag order")
    axes.set_ylabel("share of the energy")
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.set_title("Energy compaction: median, and 5 to 95 % of maps")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, columnspacing=1.4)
