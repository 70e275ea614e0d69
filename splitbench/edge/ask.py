"""From what a person says to a case: names are checked, and what is left open is filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from splitbench.core.component import Part
from splitbench.core.data import Field, Task
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.core.model import Model
from splitbench.edge.case import WORKS, Case
from splitbench.plan import components
from splitbench.plan.cells import Training
from splitbench.plan.feasible import load_data
from splitbench.plan.schema import BLOCKS, check_block

Spec = str | Mapping[str, Any]
USUAL = "fashion_mnist_mini"
TEXT = 128  # tokens, where nothing says how many
COLUMNS = 39  # of a table, likewise: those of Criteo


def ask(
    *,
    model: Spec = "resnet18",
    cut: str = "",
    defenses: Sequence[Spec] = (),
    topology: Spec = "vanilla",
    dataset: Spec | None = None,
    shape: str = "",
    classes: int | None = None,
    samples: int | None = None,
    clients: int = 1,
    training: Mapping[str, Any] | None = None,
    work: str = "training",
) -> Case:
    """Raises once, with every mistake."""
    mistakes: list[Mistake] = []

    def part(kind: Any, spec: Spec, where: str) -> Part | None:
        found, wrong = components.resolve(kind, spec, where)
        mistakes.extend(wrong)
        return found

    network, layout = part("models", model, "model"), part("topologies", topology, "topology")
    against = [found for spec in defenses if (found := part("defenses", spec, "defense")) and found.name != "none"]
    data = part("data", dataset, "dataset") if dataset is not None else None
    mistakes += check_block(BLOCKS["training"], training or {}, "training")
    mistakes += [
        Mistake(name, f"expected at least {least}, got {number}")
        for name, number, least in (("clients", clients, 1), ("classes", classes, 0), ("samples", samples, 1))
        if number is not None and number < least
    ]
    if work not in WORKS:
        mistakes.append(Mistake("phase", f"no phase '{work}'{nearest(work, WORKS)}"))
    sides = _sides(shape, mistakes)
    if shape and dataset is not None:
        mistakes.append(Mistake("shape", "a data set has a shape of its own; give one or the other"))
    if mistakes or network is None or layout is None:
        raise SplitbenchError(mistakes)
    architecture: Model = components.build(network)
    if data is None and sides is None and architecture.modality == "image":
        data, _ = components.resolve("data", USUAL, "dataset")
    what, many, task, count, columns = _sample(data, sides, architecture.modality)
    return Case(
        model=network,
        cut=cut or next(iter(architecture.cuts), ""),
        defenses=tuple(against),
        topology=layout,
        shape=what,
        classes=many if classes is None else classes,
        task=task,
        samples=samples or count,
        clients=clients,
        training=Training(**(training or {})),
        work=work,  # type: ignore[arg-type]
        dataset=data.name if data is not None else "",
        modality=architecture.modality,
        fields=columns,
    )


def _sides(shape: str, mistakes: list[Mistake]) -> tuple[int, ...] | None:
    if not shape:
        return None
    try:
        sides = tuple(int(side) for side in shape.lower().split("x"))
    except ValueError:
        sides = ()
    if not sides or min(sides) < 1 or len(sides) not in (1, 3):
        mistakes.append(Mistake("shape", f"expected 3x32x32, or the length of a text, got '{shape}'"))
    return sides


Sample = tuple[tuple[int, ...], int, Task, int, tuple[Field, ...]]


def _sample(data: Part | None, sides: tuple[int, ...] | None, modality: str) -> Sample:
    """A sample's shape, how many classes, the task, how many samples there are, and the columns of a table."""
    if sides is not None:
        return sides, 10, "classes", 1000, ()
    if data is None:
        return (TEXT if modality == "text" else COLUMNS,), 2, "classes", 1000, ()
    loaded = load_data(data)
    return loaded.shape, loaded.classes, loaded.task, len(loaded.train), loaded.fields
