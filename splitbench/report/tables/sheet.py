"""A table as it is to be seen, whatever it is about: heads, rows and texts. Every format is made of this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Shown:
    text: str
    bold: bool = False
    after: str = ""  # the paper's value, which is never bold


@dataclass(frozen=True)
class Sheet:
    title: str
    caption: str
    corner: tuple[str, ...]  # a head for each level of the rows
    rows: tuple[tuple[str, ...], ...]  # the outer level first
    columns: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[Shown, ...], ...]
    notes: tuple[str, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()  # the same as plain data, one value a record
    prose: bool = False  # cells hold words, not numbers
    about: Mapping[str, Any] | None = None  # what else plain data should hold

    def sheet(self) -> Sheet:
        return self


class HasSheet(Protocol):
    def sheet(self) -> Sheet: ...


def spans(names: Sequence[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """The names of one level, each with how many neighbours share it (and everything above it)."""
    found: list[tuple[tuple[str, ...], int]] = []
    for name in names:
        path = name[: level + 1]
        if found and found[-1][0] == path:
            found[-1] = path, found[-1][1] + 1
        else:
            found.append((path, 1))
    return [(path[-1], count) for path, count in found]


def first_of_group(rows: Sequence[tuple[str, ...]], i: int, level: int) -> bool:
    return i == 0 or rows[i][: level + 1] != rows[i - 1][: level + 1]
