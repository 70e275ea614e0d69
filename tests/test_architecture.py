"""The arrows between folders, kept true by reading the import statements."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "splitbench"
PLUGINS = {"models", "data", "topologies", "defenses", "attacks", "metrics"}
ALLOWED = {
    "core": {"core"},
    **{plugin: {"core", plugin} for plugin in PLUGINS},
    # The allocation and partition of samples are the runner's; everything else of a plug-in is reached by name.
    "bench": {"core", "bench", "data", ""},
    # What a periodic function is worth to SEAL is told by SEAL's own functions.
    "report": {"core", "bench", "report", "defenses", ""},
    "edge": {"core", "bench", "edge"},
    "cli": {"core", "bench", "report", "edge", "cli", "data", ""},
}
TORCH_FREE = ("report", "cli", "bench/store.py", "bench/outcome.py", "bench/plan.py", "bench/recipes.py",
              "bench/archive.py", "bench/axis.py", "bench/claim.py", "bench/document.py", "bench/index.py",
              "bench/paper.py", "bench/verify.py", "edge/device.py", "edge/kinds.py",
              "core/registry.py", "core/component.py", "core/errors.py", "core/threat.py")  # fmt: skip


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


def test_bench_takes_from_data_only_what_belongs_to_the_runner() -> None:
    taken = {n for p in (PACKAGE / "bench").rglob("*.py") for n in imports(p) if n.startswith("splitbench.data")}
    assert taken == {"splitbench.data._allocate", "splitbench.data._folders", "splitbench.data._partition"}


def test_only_the_report_on_functions_takes_from_defenses() -> None:
    taken = {p.name for p in (PACKAGE / "report").rglob("*.py") if any("defenses" in name for name in imports(p))}
    assert taken == {"function.py"}


@pytest.mark.parametrize("place", TORCH_FREE)
def test_nothing_heavy_is_imported_where_tables_and_help_are_made(place: str) -> None:
    files = [PACKAGE / place] if place.endswith(".py") else list((PACKAGE / place).rglob("*.py"))
    assert files
    for path in files:
        heavy = {
            name for name in imports(path, top_only=True) if name.split(".")[0] in ("torch", "timm", "transformers")
        }
        assert not heavy, f"{path.relative_to(PACKAGE)} imports {heavy} at the top"
