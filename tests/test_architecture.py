"""The arrows between folders, kept true by reading the import statements."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "splitbench"
PLUGINS = {"models", "data", "topologies", "defenses", "attacks", "metrics"}
ALLOWED = {
    "core": {"core"},
    # What belongs to one paper and is used by its defense and by attacks on it.
    "methods": {"core", "methods"},
    **{plugin: {"core", "methods", plugin} for plugin in PLUGINS},
    # Whether a run can be made is known from its data.
    "plan": {"core", "plan", "data", ""},
    "store": {"core", "plan", "store", ""},
    # The allocation and partition of samples are the runner's; everything else of a plug-in is reached by name.
    "runner": {"core", "methods", "plan", "store", "runner", "data", ""},
    "report": {"core", "plan", "store", "runner", "report", ""},
    "edge": {"core", "plan", "store", "runner", "edge"},
    "privacy": {"core", "privacy"},
    "cli": {"core", "methods", "plan", "store", "runner", "report", "edge", "privacy", "cli", "data", ""},
}
TORCH_FREE = ("report", "cli", "store", "plan", "privacy", "edge/device.py", "edge/kinds.py", "runner/allocator.py",
              "runner/verdict.py", "core/registry.py", "core/component.py", "core/errors.py",
              "core/threat.py")  # fmt: skip
# Only asked for when a run is planned.
HEAVY = {"plan/feasible.py"}


def imports(path: Path, top_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [n for n in (tree.body if top_only else ast.walk(tree)) if isinstance(n, ast.Import | ast.ImportFrom)]
    found = set()
    for node in nodes:
        found |= {a.name for a in node.names} if isinstance(node, ast.Import) else {node.module or ""}
    return found


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_run_one_way(folder: str) -> None:
    files = list((PACKAGE / folder).rglob("*.py"))
    assert files
    for path in files:
        inside = {name.split(".")[1] if "." in name else "" for name in imports(path) if name.startswith("splitbench")}
        assert inside <= ALLOWED[folder], f"{path.relative_to(PACKAGE)} imports {inside - ALLOWED[folder]}"


def test_the_runner_takes_from_data_only_what_belongs_to_the_runner() -> None:
    taken = {n for p in (PACKAGE / "runner").rglob("*.py") for n in imports(p) if n.startswith("splitbench.data")}
    assert taken == {
        "splitbench.data._allocation.allocate",
        "splitbench.data._allocation.partition",
    }


@pytest.mark.parametrize("place", TORCH_FREE)
def test_nothing_heavy_is_imported_where_tables_and_help_are_made(place: str) -> None:
    files = [PACKAGE / place] if place.endswith(".py") else list((PACKAGE / place).rglob("*.py"))
    assert files
    for path in files:
        if path.relative_to(PACKAGE).as_posix() in HEAVY:
            continue
        heavy = {
            name for name in imports(path, top_only=True) if name.split(".")[0] in ("torch", "timm", "transformers")
        }
        assert not heavy, f"{path.relative_to(PACKAGE)} imports {heavy} at the top"
