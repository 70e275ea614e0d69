"""A recipe of profiles: the cases of a paper's table, with the paper's own values beside ours."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.edge.ask import ask
from splitbench.edge.case import Case
from splitbench.edge.profile import Profile
from splitbench.edge.units import count, size
from splitbench.plan.document import Document

_KEYS = ("title", "profile", "columns", "paper", "device")
# What a column may hold, and how it is said.
COLUMNS = {
    "client_parameters": ("client parameters", lambda v: f"{v:,}".replace(",", " ")),
    "server_parameters": ("server parameters", lambda v: f"{v:,}".replace(",", " ")),
    "parameters": ("parameters", lambda v: f"{v:,}".replace(",", " ")),
    "macs_forward": ("MACs forward", count),
    "macs_backward": ("MACs backward", count),
    "memory_peak": ("peak of tensors", size),
    "memory_resident": ("resident", size),
    "bytes_up_step": ("up", size),
}


@dataclass(frozen=True)
class ProfileRecipe:
    title: str
    device: str
    cases: dict[str, Case]
    columns: tuple[str, ...]
    paper: dict[str, dict[str, float]]
    notes: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> ProfileRecipe:
        """Raises once, with every mistake and its line."""
        document = Document.load(path)
        data, mistakes = document.data, list(document.mistakes)
        if not isinstance(data, dict) or not isinstance(data.get("profile"), dict):
            raise SplitbenchError(
                [Mistake("profile", "a recipe of profiles names its cases under `profile`")], str(path)
            )
        mistakes += [Mistake(str(k), f"no key named '{k}'{nearest(str(k), _KEYS)}") for k in data if k not in _KEYS]
        columns = data.get("columns") or ["client_parameters", "server_parameters", "parameters"]
        mistakes += [
            Mistake("columns", f"no column named '{c}'{nearest(str(c), COLUMNS)}") for c in columns if c not in COLUMNS
        ]
        cases: dict[str, Case] = {}
        for name, given in data["profile"].items():
            try:
                cases[str(name)] = ask(**_arguments(given))
            except SplitbenchError as error:
                mistakes += [
                    dataclasses.replace(m, where=f"profile.{name}.{m.where}".rstrip(".")) for m in error.mistakes
                ]
            except TypeError as error:
                mistakes.append(Mistake(f"profile.{name}", str(error).replace("ask() got an", "")))
        paper = (data.get("paper") or {}).get("values") or {}
        mistakes += [
            Mistake(f"paper.values.{n}", f"no case named '{n}'{nearest(str(n), cases)}")
            for n in paper
            if n not in cases
        ]
        if mistakes:
            placed = [dataclasses.replace(m, line=m.line or document.line(m.where)) for m in mistakes]
            raise SplitbenchError(sorted(placed, key=lambda m: m.line or 0), source=str(path))
        notes = tuple((data.get("paper") or {}).get("notes") or ())
        return cls(data.get("title", ""), data.get("device", "rpi4"), cases, tuple(columns), paper, notes)


def _arguments(given: Any) -> dict[str, Any]:
    asked = dict(given)
    training = {key: asked.pop(key) for key in ("batch", "epochs", "optimizer", "frozen") if key in asked}
    return {**asked, "shape": str(asked.get("shape", "")), "training": training}


def sheet(recipe: ProfileRecipe, profiles: dict[str, Profile]) -> tuple[str, tuple[str, ...], Any, tuple[str, ...]]:
    """Ours, and the paper's value beside it where the paper has one."""
    rows, notes = [], list(recipe.notes)
    for name in recipe.cases:
        record = profiles[name].record() if name in profiles else {}
        if record:
            record["parameters"] = record["client_parameters"] + record["server_parameters"]
        cells = [name]
        for column in recipe.columns:
            ours, theirs = record.get(column), recipe.paper.get(name, {}).get(column)
            text = "not counted" if ours is None else COLUMNS[column][1](ours)  # type: ignore[no-untyped-call]
            if theirs is None:
                cells.append(text)
            elif theirs == ours:
                cells.append(f"{text} = paper")
            else:
                cells.append(f"{text} (paper: {COLUMNS[column][1](theirs)})")  # type: ignore[no-untyped-call]
        rows.append(tuple(cells))
    columns = ("model", *(COLUMNS[c][0] for c in recipe.columns))
    return recipe.title, columns, tuple(rows), tuple(notes)
