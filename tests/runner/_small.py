"""A run of about a second, for tests."""

from __future__ import annotations

from typing import Any

from splitbench.core.component import Part
from splitbench.plan.cells import Cell
from splitbench.plan.recipe import grant
from splitbench.runner.api import planned

SMALL: dict[str, Any] = {
    "data": "fashion_mnist_mini",
    "model": "lenet5",
    "cut": "conv1",
    "training": {"epochs": 1, "batch": 32},
    "samples": {"private": 96, "auxiliary": 32, "evaluation": 4},
}


def cells(**changes: Any) -> tuple[Cell, ...]:
    return planned({**SMALL, **changes}, "smoke").cells


def attacked(cell: Cell, part: Part, **threat: Any) -> Cell:
    """An attack on a run, given by a part, so that tests can bring attacks of their own."""
    return Cell(cell.run, part, grant(threat, cell.run))
