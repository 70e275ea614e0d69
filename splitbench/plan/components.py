"""From a name in a recipe to a component: checked, with its settings filled in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from splitbench.core import registry
from splitbench.core.component import Component, Part, defaults_of, instantiate, validated
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.core.registry import Kind
from splitbench.plan.cells import RunSpec


def parse(spec: Any, where: str) -> tuple[str, Mapping[str, Any], list[Mistake]]:
    """`gaussian`, or `{gaussian: {sigma: 0.1}}`, as a name and settings."""
    if isinstance(spec, str):
        return spec, {}, []
    if isinstance(spec, Mapping) and len(spec) == 1:
        name, settings = next(iter(spec.items()))
        if isinstance(name, str) and (settings is None or isinstance(settings, Mapping)):
            return name, settings or {}, []
    return "", {}, [Mistake(where, f"expected a name or {{name: {{settings}}}}, got {spec!r}")]


def resolve(kind: Kind, spec: Any, where: str) -> tuple[Part | None, list[Mistake]]:
    """The part a recipe asks for, or every mistake in asking for it."""
    name, settings, mistakes = parse(spec, where)
    if mistakes:
        return None, mistakes
    try:
        component = registry.load(kind, name)
    except SplitbenchError as error:
        return None, [Mistake(where, mistake.what) for mistake in error.mistakes]
    filled, mistakes = validated(component, settings, _inside(where, spec, name))
    if mistakes:
        return None, mistakes
    version = registry.version_of(component, name)
    reads = component.reads or component.read_paths is not Component.read_paths
    contents = _contents(instantiate(component, filled).read_paths()) if reads else ""
    return Part(kind, name, filled, f"{version}+{contents}" if contents else version), []


def _contents(given: Sequence[Path]) -> str:
    """A digest of the files that settings name (weights, a tokenizer): a path does not say what is in it."""
    digest = hashlib.sha256()
    for place in given:
        for path in sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]:
            if path.is_file():
                digest.update(path.name.encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12] if any(place.exists() for place in given) else ""


def _inside(where: str, spec: Any, name: str) -> str:
    return f"{where}.{name}" if isinstance(spec, Mapping) else where


def build(part: Part) -> Any:
    """The component a part stands for."""
    component: type[Component] = registry.load(part.kind, part.name)  # type: ignore[arg-type]
    return instantiate(component, part.settings)


def label(part: Part, always: int = 0) -> str:
    """As a person would name it: the settings that differ from their defaults, and the first few in any case."""
    component: type[Component] = registry.load(part.kind, part.name)  # type: ignore[arg-type]
    defaults = defaults_of(component)
    shown = [
        f"{name}={_short(value)}"
        for place, (name, value) in enumerate(part.settings.items())
        if place < always or value != defaults.get(name)
    ]
    return f"{part.name}({', '.join(shown)})" if shown else part.name


def scored_as(part: Part) -> str:
    """The version that a score of this metric carries: two settings of one metric are two numbers.

    Files that it reads are in its version already.
    """
    if not part.settings:
        return str(part.version)
    component: type[Component] = registry.load(part.kind, part.name)  # type: ignore[arg-type]
    defaults = defaults_of(component)
    unusual = [
        f"{name}={_short(value)}"
        for name, value in part.settings.items()
        if name not in component.reads and value != defaults.get(name)
    ]
    return f"{part.version}({', '.join(unusual)})" if unusual else str(part.version)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def defense_label(spec: RunSpec) -> str:
    """The defenses of a run, each with its main setting."""
    text = " + ".join(label(part, always=1) for part in spec.defenses) or "none"
    return text if spec.protected is None else f"{text} on {spec.protected} of {spec.clients}"
