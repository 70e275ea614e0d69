"""Several cases at once: every combination of the defenses, models, cuts and batches that are named."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from splitbench.core import registry
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.edge.ask import ask
from splitbench.edge.case import Case
from splitbench.plan import components

AXES = ("model", "cut", "defense", "batch", "phase")


def axes_of(given: Sequence[str]) -> dict[str, list[Any]]:
    """`defense=none,seal`, `cut=all`, `model=resnet18@stem,vit_tiny@embed` or `defense=[none, {seal: {omega: 1}}]`."""
    axes: dict[str, list[Any]] = {}
    mistakes: list[Mistake] = []
    for text in given:
        name, equals, values = text.partition("=")
        if not equals or not values:
            mistakes.append(Mistake("compare", f"takes axis=value,value, got '{text}'"))
        elif name not in AXES:
            mistakes.append(Mistake("compare", f"no axis '{name}'{nearest(name, AXES)}"))
        else:
            axes[name] = _values(values, mistakes)
    if mistakes:
        raise SplitbenchError(mistakes)
    return axes


def _values(text: str, mistakes: list[Mistake]) -> list[Any]:
    if not text.startswith("["):
        return [value.strip() for value in text.split(",")]
    try:
        found = yaml.safe_load(text)
        return found if isinstance(found, list) else [found]
    except yaml.YAMLError as error:
        mistakes.append(Mistake("compare", f"cannot read {text}: {error}"))
        return []


def cases(base: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> list[Case]:
    """The base with every combination of the axes, in the order in which they were named."""
    found = []
    for chosen in itertools.product(*axes.values()):
        asked = dict(base)
        for axis, value in zip(axes, chosen, strict=True):
            asked |= _setting(axis, value, asked)
        every = asked.pop("every_cut", False)
        case = ask(**asked)
        found += [replace(case, cut=cut) for cut in components.build(case.model).cuts] if every else [case]
    return found


def _setting(axis: str, value: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    if axis == "model" and isinstance(value, str):
        name, _, cut = value.partition("@")
        return {"model": name, **({"cut": cut} if cut else {})}
    if axis == "cut":
        return {"every_cut": True} if value == "all" else {"cut": value}
    if axis == "defense":
        several = value.split("+") if isinstance(value, str) else value if isinstance(value, list) else [value]
        return {"defenses": several}
    if axis == "batch":
        return {"training": {**asked.get("training", {}), "batch": _whole(value)}}
    return {"work" if axis == "phase" else axis: value}


def _whole(value: Any) -> Any:
    return int(value) if str(value).isdigit() else value


def expand(axes: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """`defense=all` and `model=all` stand for everything that has a name."""
    kinds: dict[str, registry.Kind] = {"defense": "defenses", "model": "models"}
    return {
        axis: registry.names(kinds[axis]) if axis in kinds and values == ["all"] else values
        for axis, values in axes.items()
    }
