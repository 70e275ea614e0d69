"""What a recipe may hold, and every mistake in one, found before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import MinLen
from pydantic import TypeAdapter, ValidationError

from splitbench.core import registry
from splitbench.core.errors import Mistake, nearest
from splitbench.core.registry import Kind
from splitbench.core.threat import ThreatModel
from splitbench.plan import components, paper
from splitbench.plan.cells import SCALES, Counts, Options, Training
from splitbench.plan.fields import kinds_of

# The plain keys of a recipe and what they hold. Keys that name components are checked against the registry.
PLAIN: dict[str, Any] = {
    "title": str,
    "cut": str,
    **kinds_of(Options),
    "seeds": Annotated[list[int], MinLen(1)],
    "paper": dict[str, Any],
}
ONE: dict[str, Kind] = {"data": "data", "model": "models", "topology": "topologies", "auxiliary": "data"}
MANY: dict[str, Kind] = {"defenses": "defenses", "attacks": "attacks", "metrics": "metrics"}
BLOCKS: dict[str, dict[str, Any]] = {
    "training": kinds_of(Training),
    "samples": kinds_of(Counts),
    "threat": kinds_of(ThreatModel),
    "bar": dict.fromkeys(registry.names("metrics"), float),
    "table": {"rows": str, "columns": str, "metric": str, "caption": str},
}


def check(block: Mapping[str, Any], inside: str = "") -> list[Mistake]:
    """Every mistake that can be seen in a recipe, or in one of its scales or cases, by itself."""
    mistakes: list[Mistake] = []
    known = [
        *PLAIN,
        *ONE,
        *MANY,
        *BLOCKS,
        *([] if inside.startswith("cases") else ["cases"]),
        *([] if inside else ["scales"]),
    ]
    for key, value in block.items():
        where = f"{inside}.{key}" if inside else str(key)
        if key == "paper":
            mistakes += paper.check(value, where)
        elif key in PLAIN:
            mistakes += _typed(PLAIN[key], value, where)
        elif key in ONE:
            own = key == "auxiliary" and value is None  # the data set of the private samples
            mistakes += [] if own else components.resolve(ONE[key], value, where)[1]
        elif key in MANY:
            mistakes += _check_list(MANY[key], value, where)
        elif key in BLOCKS:
            mistakes += check_block(BLOCKS[key], value, where)
        elif key == "cases" and key in known:
            mistakes += _check_each(value, where)
        elif key == "scales" and key in known:
            mistakes += _check_scales(value, where)
        else:
            mistakes.append(Mistake(where, f"no key named '{key}'{nearest(str(key), known)}"))
    return mistakes


def _typed(kind: Any, value: Any, where: str) -> list[Mistake]:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        problems = [(p["msg"].replace("Input should be", "expected"), p["input"]) for p in error.errors()]
        return [Mistake(where, f"{message}, got {given!r}") for message, given in problems]
    return []


def coerce(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the types declared; YAML reads `1e-3`, which has no dot, as text."""

    def value(kind: Any, given: Any) -> Any:
        return TypeAdapter(kind).validate_python(given)

    plain = {key: value(kind, merged[key]) for key, kind in PLAIN.items()}
    blocks = {
        key: {name: value(settings[name], given) for name, given in merged[key].items()}
        for key, settings in BLOCKS.items()
    }
    return {**merged, **plain, **blocks}


def _check_list(kind: Kind, value: Any, where: str) -> list[Mistake]:
    if not isinstance(value, list):
        return [Mistake(where, f"expected a list, got {value!r}")]
    mistakes: list[Mistake] = []
    for i, spec in enumerate(value):
        # A defense may itself be a list: several at once, in the order written.
        inner = spec if isinstance(spec, list) and kind == "defenses" else [spec]
        for j, one in enumerate(inner):
            place = f"{where}[{i}][{j}]" if isinstance(spec, list) else f"{where}[{i}]"
            mistakes += components.resolve(kind, one, place)[1]
    return mistakes


def check_block(fields_of: Mapping[str, Any], value: Any, where: str) -> list[Mistake]:
    if not isinstance(value, Mapping):
        return [Mistake(where, f"expected settings, got {value!r}")]
    mistakes: list[Mistake] = []
    for key, setting in value.items():
        place = f"{where}.{key}"
        if key in fields_of:
            mistakes += _typed(fields_of[key], setting, place)
        else:
            mistakes.append(Mistake(place, f"no setting named '{key}'{nearest(str(key), fields_of)}"))
    return mistakes


def _check_each(value: Any, where: str) -> list[Mistake]:
    if not isinstance(value, list) or not all(isinstance(case, Mapping) for case in value):
        return [Mistake(where, "expected a list of cases, each a mapping of the keys it changes")]
    return [m for i, case in enumerate(value) for m in check(case, f"{where}[{i}]")]


def _check_scales(value: Any, where: str) -> list[Mistake]:
    if not isinstance(value, Mapping):
        return [Mistake(where, f"expected {', '.join(SCALES)}, got {value!r}")]
    mistakes = [
        Mistake(f"{where}.{s}", f"no scale named '{s}'{nearest(str(s), SCALES)}") for s in value if s not in SCALES
    ]
    for scale, block in value.items():
        if scale in SCALES and block:
            mistakes += check(block, f"{where}.{scale}")
    return mistakes
