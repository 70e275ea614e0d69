"""What a table, a curve or a claim can be laid out by: an axis is a path into the resolved document of a row.

    defense.seal.omega    attack.fora.steps    model.resnet18.width      settings of a component
    training.epochs       threat.rounds        samples.private           fields of the blocks of a recipe
    run.alpha             run.partition        effort.restarts

or a short name of what a row is about (`defense`, `dataset`, `seed`, ...). The name of a setting or a field alone
(`omega`, `rounds`) stands for the one path that ends with it. What stands on the axis `metric` is a metric or a cost.
Never loads torch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from splitbench.core import registry
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.core.goal import GOALS
from splitbench.core.registry import Kind
from splitbench.core.threat import KNOWLEDGE, ThreatModel
from splitbench.plan.cells import SCALES, Cell, Counts, RunSpec, Training

KINDS: dict[str, Kind] = {"attack": "attacks", "dataset": "data", "defense": "defenses", "metric": "metrics"}
COUNTS = ("protected", "clients", "seed")
SHORT = (*KINDS, "knowledge", "goal", "party", "scale", *COUNTS, "model", "cut", "topology")
# Components whose settings are axes, by the first word of the path.
PARTS: dict[str, Kind] = {"defense": "defenses", "attack": "attacks", "data": "data", "model": "models",
                          "topology": "topologies"}  # fmt: skip
BLOCKS: dict[str, tuple[str, ...]] = {
    "training": tuple(f.name for f in fields(Training)),
    "samples": tuple(f.name for f in fields(Counts)),
    "threat": tuple(f.name for f in fields(ThreatModel)),
    # A run's own: what is neither a component nor a block.
    "run": tuple(f.name for f in fields(RunSpec)
                 if f.name not in {*PARTS, "defenses", "training", "samples"} and not f.name.endswith("_digest")),
    "effort": tuple(f.name for f in fields(Cell) if f.name in ("restarts", "minutes")),
}  # fmt: skip

# What rows count besides metrics, and what each is; less is better. A row may hold others too.
COSTS: dict[str, str] = {
    "seconds": "seconds it took",
    "cpu_seconds": "processor seconds it took, of all threads",
    "bytes_up": "bytes sent by the clients in the training",
    "bytes_down": "bytes sent to the clients in the training",
    "client_parameters": "parameters at the client",
    "edge_macs": "MACs at the edge",
    "epsilon": "epsilon of differential privacy",
    "delta": "delta of differential privacy",
    "loss": "loss at the end of the training",
    "chance": "accuracy of always answering the commonest label",
    "iterations": "iterations of the attack",
    "position_similarity": "mean |cosine| of position embeddings",
}


@functools.cache
def _known(kind: Kind) -> list[str]:
    return registry.names(kind)


@functools.cache
def _settings(kind: Kind, name: str) -> tuple[str, ...]:
    """Read from its source; nothing if that cannot be found."""
    try:
        return tuple(s.name for s in registry.describe(kind, name)[1])
    except (ImportError, SyntaxError, OSError):
        return ()


@functools.cache
def _paths() -> tuple[str, ...]:
    """Every path there is without components of one's own: settings of defenses, and fields of blocks."""
    defenses = [f"defense.{name}.{s}" for name in _known("defenses") for s in _settings("defenses", name)]
    return (*defenses, *(f"{block}.{name}" for block, names in BLOCKS.items() for name in names))


def axes() -> list[str]:
    """Short names and paths."""
    return [*SHORT, *_paths()]


def resolve(axis: Any) -> str:
    """The axis by its one name: a short name, or a path. Raises a `SplitbenchError` if there is none, or several."""
    if isinstance(axis, str):
        if axis in SHORT:
            return axis
        if "." in axis:
            found = _path(axis)
            return found if isinstance(found, str) else _refuse(axis, found)
        ends = [path for path in _paths() if path.rpartition(".")[2] == axis]
        if axis == "private":  # how many samples there are is asked for more often than what threat.private says
            ends = ["samples.private"]
        elif axis in BLOCKS["threat"]:  # what is granted to the adversary is asked for more often than what there is
            ends = [path for path in ends if path.partition(".")[0] not in ("samples", "run")]
        if len(ends) == 1:
            return _path_of(ends[0])
        if ends:
            raise SplitbenchError(f"'{axis}' may be {', '.join(ends)}; say which")
    return _refuse(axis, dict.fromkeys((*SHORT, *map(short, _paths()))))


def _refuse(axis: Any, known: Iterable[str]) -> str:
    raise SplitbenchError(f"no axis named '{axis}'{nearest(str(axis), list(known))}")


def _path_of(path: str) -> str:
    """A path to what has a short name is that name."""
    block, _, name = path.partition(".")
    return name if block in ("run", "threat") and name in SHORT else path


def _path(axis: str) -> str | list[str]:
    """The path in its canonical form, or the nearest that exist."""
    block, _, rest = axis.partition(".")
    if block == "run" and rest.partition(".")[0] in {*BLOCKS, *PARTS} and "." in rest:
        return _path(rest)  # as the document has it
    if block in BLOCKS:
        return _path_of(axis) if rest in BLOCKS[block] else [f"{block}.{name}" for name in BLOCKS[block]]
    if block not in PARTS:
        return axes()
    kind = PARTS[block]
    name, _, setting = rest.rpartition(".")
    if not name:
        return [f"{block}.{one}.{rest}" for one in _known(kind)]
    own = name not in _known(kind)
    if own and not _of_ones_own(name) and kind not in ("models", "data"):
        return [f"{block}.{one}.{setting}" for one in _known(kind)]
    known = _settings(kind, name)
    return axis if setting in known or own else [f"{block}.{name}.{one}" for one in known]


def _of_ones_own(name: str) -> bool:
    return ":" in name or "/" in name or name.endswith(".npz")


def short(axis: str) -> str:
    """What a head says: the last word of a path."""
    return axis.rpartition(".")[2]


def heads(several: Iterable[str]) -> dict[str, str]:
    """A short head for each axis, and the whole path where two would be the same."""
    given = list(several)
    words = [short(axis) for axis in given]
    return {axis: word if words.count(word) == 1 else axis for axis, word in zip(given, words, strict=True)}


def part_of(axis: str) -> tuple[str, str] | None:
    """The kind and name of the component whose setting an axis is: `defense`, `seal`."""
    block, _, rest = axis.partition(".")
    return (block, rest.rpartition(".")[0]) if rest and block in PARTS else None


def find(cell: Mapping[str, Any], axis: str) -> Any:
    """What stands at a path in the resolved document of a row; None if it has nothing there."""
    block, _, name = axis.partition(".")
    run = cell.get("run", {})
    if block in PARTS:
        wanted, setting = name.rpartition(".")[0], name.rpartition(".")[2]
        held = {"defense": run.get("defenses"), "attack": cell.get("attack")}.get(block, run.get(block))
        parts = held if isinstance(held, list | tuple) else [held]
        mine = [p for p in parts if isinstance(p, Mapping) and p.get("name") == wanted]
        return next((p.get("settings", {}).get(setting) for p in mine), None)
    if block == "effort":
        usual = {"restarts": 1, "minutes": None} if "attack" in cell else {}
        return {**usual, **cell.get("effort", {})}.get(name)
    within = run if block == "run" else cell.get("threat", {}) if block == "threat" else run.get(block, {})
    value = within.get(name) if isinstance(within, Mapping) else None
    return value.get("name") if isinstance(value, Mapping) else value


def plain(value: Any) -> str:
    """A value as it is compared: 1, 1.0 and "1.0" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "+".join(map(plain, value)) or "none"
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def check_axis(axis: Any, where: str) -> list[Mistake]:
    try:
        resolve(axis)
    except SplitbenchError as error:
        return [Mistake(where, str(error))]
    return []


def check_value(axis: str, value: Any, where: str) -> list[Mistake]:
    """Whether there can be such a thing on the axis, which there must be."""
    axis = resolve(axis)
    words = {"knowledge": tuple(KNOWLEDGE), "goal": tuple(GOALS), "scale": SCALES}.get(axis)
    if words is not None:
        near = nearest(str(value), words)
        return [] if value in words else [Mistake(where, f"no {axis} named '{value}'{near}")]
    if axis in COUNTS or (axis.partition(".")[0] in ("samples", "threat") and _counted(axis)):
        whole = not isinstance(value, bool) and str(value).isdigit()  # JSON makes texts of the numbers that are keys
        return [] if whole else [Mistake(where, f"expected a count, got {value!r}")]
    if axis not in KINDS:
        scalar = isinstance(value, str | int | float)
        return [] if scalar else [Mistake(where, f"expected a word or a number, got {value!r}")]
    kind = KINDS[axis]
    parts = str(value).split("+") if axis == "defense" else [str(value)]  # several at once, in the order written
    known = values_known() if axis == "metric" else _known(kind)
    what = "metric or cost" if axis == "metric" else registry.SINGULAR[kind]
    return [
        Mistake(where, f"no {what} named '{part}'{nearest(part, known)}")
        for part in parts
        if part not in known and not _of_ones_own(part)
    ]


def _counted(axis: str) -> bool:
    block, _, name = axis.partition(".")
    given = Counts() if block == "samples" else ThreatModel()
    value = getattr(given, name)
    return isinstance(value, int) and not isinstance(value, bool)


def values_known() -> list[str]:
    """What a value of a table may be: every metric there is, and every cost that rows count."""
    return [*_known("metrics"), *COSTS]
