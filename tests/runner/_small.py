"""A run of about a second, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from splitbench.core.component import Part
from splitbench.core.party import Party
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View
from splitbench.plan.cells import Cell
from splitbench.plan.recipe import grant
from splitbench.runner.adversary import view_of
from splitbench.runner.api import planned
from splitbench.runner.targets import Observed, observe
from splitbench.runner.train import Trained

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


def observed(trained: Trained, threat: ThreatModel) -> Observed:
    """What reaches the attacking party about the evaluation samples."""
    prepared = trained.prepared
    samples, rows = prepared.evaluation, prepared.allocation.evaluation
    return observe(prepared, Party.named(threat.party), samples.x, samples.y, rows, threat.rounds)


@contextmanager
def seen(trained: Trained, threat: ThreatModel, goal: str = "inputs", live: bool = False) -> Iterator[View]:
    """The view of an attack on the evaluation samples, or of one that attends the training."""
    with view_of(trained, threat, goal, None if live else observed(trained, threat), live=live) as view:
        yield view
