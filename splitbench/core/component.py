"""What every component has in common: settings are its dataclass fields, and a version guards its numbers."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_type_hints

from splitbench.core.errors import Mistake, nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

C = TypeVar("C")

_PACKAGE = Path(__file__).parent.parent


class Component:
    """A model, data set, topology, defense, attack or metric. Raise `version` when its results change."""

    version: ClassVar[int | str] = 1
    reads: ClassVar[tuple[str, ...]] = ()  # settings that are paths to files whose contents decide results

    def read_paths(self) -> tuple[Path, ...]:
        """The files and folders whose contents decide results, beside settings and version."""
        return tuple(Path(value).expanduser() for name in self.reads if (value := getattr(self, name)))


@dataclass(frozen=True)
class Part:
    """A component as a recipe names it: everything that decides what it does."""

    kind: str
    name: str
    settings: Mapping[str, Any]
    version: int | str = 1

    def document(self) -> dict[str, Any]:
        """As plain data, for digests and files."""
        return {"name": self.name, "version": self.version, "settings": dict(self.settings)}


@dataclass(frozen=True)
class Setting:
    """One setting, as read from the source: no import needed to list it."""

    name: str
    annotation: str
    default: str
    note: str


def settings_of(component: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields a recipe may set; fields marked `init=False` are what the component learns while running."""
    if not dataclasses.is_dataclass(component):
        return {}
    return {field.name: field for field in dataclasses.fields(component) if field.init}


@functools.cache
def _schema(component: type) -> type[BaseModel]:
    # Here and not above: listing settings for `--help` must not wait for pydantic.
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(component, include_extras=True)
    fields: dict[str, Any] = {}
    for name, field in settings_of(component).items():
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        fields[name] = (hints[name], default)
    # Settings such as `model_path` are ordinary names here, not pydantic's.
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model(component.__name__, __config__=config, **fields)


def validated(component: type, settings: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[Mistake]]:
    """Settings with defaults filled in, and every mistake in them."""
    from pydantic import ValidationError

    mistakes = []
    known = settings_of(component)
    for name in settings:
        if name not in known:
            what = nearest(name, known) or f"; {component.__name__} has no settings"
            mistakes.append(Mistake(_join(where, name), f"no setting named '{name}'{what}"))
    try:
        checked = _schema(component).model_validate({k: v for k, v in settings.items() if k in known})
    except ValidationError as error:
        for problem in error.errors():
            place = _join(where, *map(str, problem["loc"]))
            mistakes.append(Mistake(place, f"{_plain(problem['msg'])}, got {problem['input']!r}"))
        return {}, mistakes
    return checked.model_dump(mode="json"), mistakes


def defaults_of(component: type) -> dict[str, Any]:
    """Every setting at its default, as plain data."""
    return _schema(component)().model_dump(mode="json")


def instantiate(component: type[C], settings: Mapping[str, Any]) -> C:
    """The component with these settings, turned from plain data into the types it declares."""
    kind: type = component
    checked = _schema(kind).model_validate(dict(settings))
    return component(**{name: getattr(checked, name) for name in settings_of(component)})


def _join(*places: str) -> str:
    return ".".join(place for place in places if place)


def _plain(message: str) -> str:
    """Pydantic's sentence, begun as ours are."""
    return message.replace("Input should be", "expected").replace("Value error, ", "")


def parsed(path: Path) -> ast.Module:
    """A source file, parsed once for as long as it stays as it is."""
    known = path.stat()
    return _parsed(path, known.st_mtime_ns, known.st_size)


@functools.lru_cache(maxsize=256)
def _parsed(path: Path, _time: int, _size: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def read_settings(path: Path, class_name: str) -> tuple[str, list[Setting]]:
    """The docstring and settings of a component, from its source alone, so that `--help` loads nothing heavy.

    A trailing comment on a field is its explanation. Settings inherited from another class of this file, or of
    splitbench, come first.
    """
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    body = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name), None)
    if body is None:
        return "", []
    found: dict[str, Setting] = {}
    for base in body.bases:
        if isinstance(base, ast.Name) and (home := _home(tree, base.id, path)) is not None:
            found |= {setting.name: setting for setting in read_settings(home, base.id)[1]}
    lines = text.splitlines()
    for node in body.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        annotation, default = ast.unparse(node.annotation), ast.unparse(node.value) if node.value else ""
        if "ClassVar" in annotation or "init=False" in default:
            continue
        _, _, note = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
        found[node.target.id] = Setting(node.target.id, annotation, default, note.strip())
    return ast.get_docstring(body) or "", list(found.values())


def read_declared(path: Path, class_name: str, variable: str) -> Any:
    """What a class, or one it derives from, declares a class variable to be; None if none of them does.

    Read from the source alone, so it must be a plain string or number.
    """
    tree = parsed(path)
    body = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name), None)
    if body is None:
        return None
    for node in body.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == variable for target in targets):
            value = getattr(node, "value", None)
            return value.value if isinstance(value, ast.Constant) else None
    for base in body.bases:
        if isinstance(base, ast.Name) and (home := _home(tree, base.id, path)) is not None:
            found = read_declared(home, base.id, variable)
            if found is not None:
                return found
    return None


def _home(tree: ast.Module, name: str, path: Path) -> Path | None:
    """The file that defines a base class: this one, or the module of splitbench it is imported from."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return path
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            top, _, rest = (node.module or "").partition(".")
            file = _PACKAGE.joinpath(*rest.split(".")).with_suffix(".py")
            # Core's own classes have no settings.
            return file if top == "splitbench" and not rest.startswith("core") and file.is_file() else None
    return None
