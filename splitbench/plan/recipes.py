"""Where recipes are: the top of a source checkout, or inside an installed wheel."""

from __future__ import annotations

import re
from pathlib import Path

from splitbench.core.errors import SplitbenchError, nearest

_PACKAGE = Path(__file__).parents[1]


def folder() -> Path:
    installed = _PACKAGE / "_recipes"
    return installed if installed.is_dir() else _PACKAGE.parent / "recipes"


def names() -> list[str]:
    """Every recipe that comes with splitbench, as it is called: `quickstart`, `seal/table2`."""
    return sorted(str(p.relative_to(folder()).with_suffix("").as_posix()) for p in folder().rglob("*.yaml"))


def counts_only(path: Path) -> bool:
    """Whether a recipe is of profiles: nothing is trained for it, so there is nothing to run."""
    return re.search(r"^profile:", path.read_text(encoding="utf-8", errors="replace"), flags=re.MULTILINE) is not None


def find(given: str) -> tuple[str, Path]:
    """The name and file of a recipe, given by its name or by a path."""
    path = Path(given)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        inside = path.resolve().is_relative_to(folder().resolve())
        return (
            path.resolve().relative_to(folder().resolve()).with_suffix("").as_posix() if inside else path.stem
        ), path
    own = folder() / f"{given.removesuffix('.yaml')}.yaml"
    if own.is_file():
        return given.removesuffix(".yaml"), own
    raise SplitbenchError(f"no recipe '{given}', neither a file nor one of ours{nearest(given, names())}")
