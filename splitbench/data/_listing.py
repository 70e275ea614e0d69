"""Which data is here, and how to come by the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splitbench.core.registry import load, names
from splitbench.data._folders import EMBEDDED, folders, search


@dataclass(frozen=True)
class Entry:
    name: str
    path: Path | None  # the file that would be read, or one of several
    note: str


def found(name: str) -> Path | None:
    """What would be read for a data set."""
    component: Any = load("data", name)
    return search(component.files, folders())


def listing() -> list[Entry]:
    """Every data set with a name of its own."""
    return [Entry(name, path, _note(name, path)) for name in names("data") for path in (found(name),)]


def _note(name: str, path: Path | None) -> str:
    if path is None:
        return f"splitbench data fetch {name}"
    if path.is_relative_to(EMBEDDED):
        return "ships with splitbench"
    if path.suffix == ".npz" or path.name.endswith((".jsonl", ".jsonl.gz", ".csv", ".csv.gz")):
        return f"{path.stat().st_size / 1e6:.1f} MB, in splitbench's layout"
    return "official files"
