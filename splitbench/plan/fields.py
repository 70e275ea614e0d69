"""What can be set on a run, an adversary or a training, read from the one place that says it: a dataclass.

The keys of a recipe, the options of commands and the command that makes a row again are all made from this.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from splitbench.core.component import read_settings


@dataclass(frozen=True)
class Field:
    name: str
    kind: Any  # its type, with limits
    default: Any
    note: str  # the trailing comment in its source

    @property
    def plain(self) -> type:
        """Its type without limits and without None: bool, int, float, str or tuple."""
        return _plain(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """What a word, or each of several, may be; nothing if it is not one of a few."""
        return _choices(self.kind)

    @property
    def optional(self) -> bool:
        return NoneType in get_args(self.kind)


@functools.cache
def fields_of(owner: type) -> tuple[Field, ...]:
    """The fields of a dataclass that says them itself, not those of its bases."""
    file = sys.modules[owner.__module__].__file__
    notes = {s.name: s.note for s in read_settings(Path(file), owner.__name__)[1]} if file else {}
    hints = get_type_hints(owner, include_extras=True)
    return tuple(Field(f.name, hints[f.name], f.default, notes.get(f.name, "")) for f in dataclasses.fields(owner))


def kinds_of(owner: type) -> dict[str, Any]:
    """The type of each field, with limits."""
    return {field.name: field.kind for field in fields_of(owner)}


def defaults_of(owner: type) -> dict[str, Any]:
    return {field.name: field.default for field in fields_of(owner)}


def _plain(kind: Any) -> type:
    origin = get_origin(kind)
    if origin is Annotated:
        return _plain(get_args(kind)[0])
    if origin in (Union, UnionType):
        return _plain(next(one for one in get_args(kind) if one is not NoneType))
    if origin is Literal:
        return str
    found: type = origin or kind
    return found


def _choices(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((found for one in get_args(kind) if get_origin(one) and (found := _choices(one))), ())
