"""YAML with line numbers, so that a mistake can be pointed at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from splitbench.core.errors import Mistake, SplitbenchError


def _compose(text: str) -> Any:
    """By the parser in C, ten times as fast, where PyYAML has it; the other one is better at locating mistakes."""
    with contextlib.suppress(yaml.YAMLError, AttributeError):
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    return yaml.compose(text, Loader=yaml.SafeLoader)


class Document:
    """Plain data read safely, and the line each part of it stands on."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.lines: dict[str, int] = {}
        self.mistakes: list[Mistake] = []
        try:
            root = _compose(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            what = getattr(error, "problem", None) or str(error)
            raise SplitbenchError(
                [Mistake("YAML", f"{what}", mark.line + 1 if mark else None)], source=source
            ) from error
        self.data: Any = self._read(root, "") if root is not None else {}

    @classmethod
    def load(cls, path: Path) -> Document:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SplitbenchError(f"cannot read the recipe {path}: {error}") from error
        return cls(text, str(path))

    def _read(self, node: yaml.Node, place: str) -> Any:
        self.lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            found: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = _scalar(key_node)
                inner = f"{place}.{key}" if place else str(key)
                line = key_node.start_mark.line + 1
                if key in found:
                    self.mistakes.append(Mistake(inner, f"given twice, first on line {self.lines[inner]}", line))
                    continue
                self.lines[inner] = line
                found[key] = self._read(value_node, inner)
            return found
        if isinstance(node, yaml.SequenceNode):
            return [self._read(item, f"{place}[{i}]") for i, item in enumerate(node.value)]
        return _scalar(node)

    def line(self, place: str) -> int | None:
        """The line of a place, or of the nearest thing around it."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place.rstrip("]").rpartition("[")[0] if place.endswith("]") else place.rpartition(".")[0]
        return self.lines.get("")

    def refuse(self, mistakes: Iterable[Mistake]) -> None:
        """Raise once, with every mistake and the line it stands on; nothing if there is none."""
        placed = {replace(m, line=m.line or self.line(m.where)): None for m in mistakes}
        if placed:
            raise SplitbenchError(sorted(placed, key=lambda m: m.line or 0), source=self.source)


def _scalar(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()
