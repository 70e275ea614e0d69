"""What a table can be laid out by: something a row of the store has, or a setting of a defense. Never loads torch."""

from __future__ import annotations

import functools
from typing import Any

from splitbench.core import registry
from splitbench.core.errors import Mistake, nearest
from splitbench.core.registry import Kind
from splitbench.core.threat import KNOWLEDGE

KINDS: dict[str, Kind] = {"attack": "attacks", "dataset": "data", "defense": "defenses", "metric": "metrics"}
COUNTS = ("protected", "clients", "seed", "rounds", "auxiliary", "queries")
WORDS = ("model", "cut", "topology")
FIXED = (*KINDS, "knowledge", *COUNTS, *WORDS)


@functools.cache
def settings() -> frozenset[str]:
    """Every setting of every defense, read from their sources."""
    return frozenset(s.name for name in registry.names("defenses") for s in registry.describe("defenses", name)[1])


@functools.cache
def _known(kind: Kind) -> list[str]:
    return registry.names(kind)


def axes() -> list[str]:
    return [*FIXED, *sorted(settings() - set(FIXED))]


def plain(value: Any) -> str:
    """A value as it is compared: 1, 1.0 and "1.0" are the same."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return f"{float(value):g}"
    except (TypeError, ValueError):
        return str(value)


def check_axis(axis: Any, where: str) -> list[Mistake]:
    if isinstance(axis, str) and (axis in FIXED or axis in settings()):
        return []
    return [Mistake(where, f"a table has no '{axis}' to go by{nearest(str(axis), axes())}")]


def check_value(axis: str, value: Any, where: str) -> list[Mistake]:
    """Whether there can be such a thing on the axis."""
    if axis == "knowledge":
        known_of = nearest(str(value), KNOWLEDGE)
        return [] if value in tuple(KNOWLEDGE) else [Mistake(where, f"no knowledge named '{value}'{known_of}")]
    if axis in COUNTS:
        whole = not isinstance(value, bool) and str(value).isdigit()  # JSON makes texts of the numbers that are keys
        return [] if whole else [Mistake(where, f"expected a count, got {value!r}")]
    if axis not in KINDS:
        scalar = isinstance(value, str | int | float)
        return [] if scalar else [Mistake(where, f"expected a word or a number, got {value!r}")]
    kind = KINDS[axis]
    parts = str(value).split("+") if axis == "defense" else [str(value)]  # several at once, in the order written
    known = _known(kind)
    return [
        Mistake(where, f"no {registry.SINGULAR[kind]} named '{part}'{nearest(part, known)}")
        for part in parts
        if part not in known and ":" not in part and "/" not in part and not part.endswith(".npz")  # one of your own
    ]
