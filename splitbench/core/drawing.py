"""How pictures look, and how they are written: the same figure gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, FAINT = "#2b2b2b", "#8a8a8a"
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "svg.hashsalt": "splitbench",
}


def write(figure: Figure, path: Path, **how: Any) -> None:
    """As PNG or SVG, whichever the name of the file asks for."""
    kind = path.suffix.lower().removeprefix(".")
    unchanging = {"Date": None} if kind == "svg" else {"Software": None}
    figure.savefig(path, format=kind, dpi=150, metadata=unchanging, **how)
