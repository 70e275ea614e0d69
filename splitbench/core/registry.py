"""The folder is the registry: `attacks/fsha.py` is the attack `fsha`. Listing names imports nothing heavy.

A component may come from four places, tried in this order: a file of the folder; an entry point of another
package (`splitbench.attacks` and so on); a class given as `file.py:Class` or `package.module:Class`; and, for
models and data, anything the folder's `_adopt` module can make a component of (a timm model, a path).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, get_args

from splitbench.core.component import Component, Setting, parsed, read_declared, read_settings
from splitbench.core.errors import SplitbenchError, nearest

Kind = Literal["models", "data", "topologies", "defenses", "attacks", "metrics"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SINGULAR: dict[Kind, str] = {
    "models": "model",
    "data": "data set",
    "topologies": "topology",
    "defenses": "defense",
    "attacks": "attack",
    "metrics": "metric",
}
_BASES: dict[Kind, tuple[str, str]] = {
    "models": ("model", "Model"),
    "data": ("data", "Data"),
    "topologies": ("topology", "Topology"),
    "defenses": ("defense", "Defense"),
    "attacks": ("attack", "Attack"),
    "metrics": ("metric", "Metric"),
}

_PACKAGE = Path(__file__).parent.parent


def names(kind: Kind) -> list[str]:
    """Every component of a kind that has a name of its own."""
    return sorted({*_files(kind), *_plugins(kind)})


def _files(kind: Kind) -> dict[str, Path]:
    return {p.stem: p for p in (_PACKAGE / kind).glob("*.py") if not p.stem.startswith("_")}


@functools.cache
def _plugins(kind: Kind) -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=f"splitbench.{kind}")}


def locate(kind: Kind, name: str) -> tuple[Path, str] | None:
    """The source file and class of a component, found without importing it; None if it has no file."""
    path = _PACKAGE / kind / f"{name}.py"
    if name.isidentifier() and not name.startswith("_") and path.is_file():
        return path, _class_in(path, name)
    spec = _plugins(kind).get(name, name)
    place, _, attribute = spec.partition(":")
    if not attribute:
        return None
    if place.endswith(".py"):
        return Path(place), attribute
    found = importlib.util.find_spec(place)
    return (Path(found.origin), attribute) if found and found.origin else None


def _class_in(path: Path, name: str) -> str:
    """A file holds one public class, named as the file is, but for case and underscores (`None_` is `none`)."""
    wanted = name.replace("_", "").lower()
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef) and node.name.rstrip("_").lower() == wanted:
            return node.name
    raise ImportError(f"{path} holds no class named like '{name}'")


def describe(kind: Kind, name: str) -> tuple[str, list[Setting]]:
    """Docstring and settings, read from the source."""
    found = locate(kind, name)
    return read_settings(*found) if found and found[0].is_file() else ("", [])


def declared(kind: Kind, name: str, variable: str) -> Any:
    """A class variable of a component, read from its source; the default of its kind where it says none or is gone."""
    try:
        found = locate(kind, name)
        value = read_declared(*found, variable) if found and found[0].is_file() else None
    except (ImportError, SyntaxError):  # a package that is not on this machine, or a file that was broken since
        value = None
    module, base = _BASES[kind]
    return value if value is not None else read_declared(_PACKAGE / "core" / f"{module}.py", base, variable)


def load(kind: Kind, name: str) -> type[Component]:
    """The class of a component, or a `SplitbenchError` that says what comes nearest."""
    if name in _files(kind):
        module = importlib.import_module(f"splitbench.{kind}.{name}")
        found = locate(kind, name)
        assert found is not None
        return _checked(getattr(module, found[1]), kind, name)
    spec = _plugins(kind).get(name, name)
    thing = _import(spec, kind) if ":" in spec else None
    if isinstance(thing, type) and issubclass(thing, Component):
        return _checked(thing, kind, name)
    if (_PACKAGE / kind / "_adopt.py").exists():
        adopted = importlib.import_module(f"splitbench.{kind}._adopt").adopt(name, thing)
        if adopted is not None:
            return _checked(adopted, kind, name)
    if thing is not None:
        raise SplitbenchError(
            f"'{name}' is a {type(thing).__name__}, not a {SINGULAR[kind]} (a {_base(kind).__name__})"
        )
    raise SplitbenchError(f"no {SINGULAR[kind]} named '{name}'{nearest(name, names(kind))}")


def version_of(component: type[Component], name: str) -> int | str:
    """A component given as a file has no published version, so its source is its version."""
    place, _, attribute = name.partition(":")
    if attribute and place.endswith(".py"):
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()[:12]
    return component.version


def _base(kind: Kind) -> type[Component]:
    module, name = _BASES[kind]
    base: type[Component] = getattr(importlib.import_module(f"splitbench.core.{module}"), name)
    return base


def _checked(thing: Any, kind: Kind, name: str) -> type[Component]:
    base = _base(kind)
    if not (isinstance(thing, type) and issubclass(thing, base)):
        raise SplitbenchError(f"'{name}' is not a {SINGULAR[kind]}: it must be a class derived from {base.__name__}")
    return thing


def _import(spec: str, kind: Kind) -> Any:
    place, _, attribute = spec.partition(":")
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise SplitbenchError(f"no file '{place}' to take the {SINGULAR[kind]} '{attribute}' from")
        # By content, so that an edited file is another module and not a stale one.
        alias = f"_splitbench_{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        if alias not in sys.modules:
            made = importlib.util.spec_from_file_location(alias, path)
            assert made is not None
            assert made.loader is not None
            module = importlib.util.module_from_spec(made)
            sys.modules[alias] = module
            try:
                made.loader.exec_module(module)
            except Exception as error:
                del sys.modules[alias]
                raise SplitbenchError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
        module = sys.modules[alias]
    else:
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise SplitbenchError(f"cannot import '{place}' for the {SINGULAR[kind]} '{attribute}': {error}") from error
    if not hasattr(module, attribute):
        public = [n for n, v in vars(module).items() if isinstance(v, type) and not n.startswith("_")]
        raise SplitbenchError(f"{place} holds no '{attribute}'{nearest(attribute, public)}")
    return getattr(module, attribute)
