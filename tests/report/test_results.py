"""The committed results, where there are some: every page is what one command prints from the committed rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.report.tables import render
from splitbench.report.tables.pages import pages, shown
from splitbench.store.store import Store
from tests.conftest import Command
from tests.report.test_claims import filled

RESULTS = Path(__file__).parents[2] / "results"

# Rows of another schema are no results: they are made anew.
PLANS = Store(RESULTS).plans() if Store(RESULTS).outcomes()[0] else []
MADE = pages(RESULTS) if PLANS else {}


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_committed_page_is_what_the_rows_say(name: str) -> None:
    assert (RESULTS / name).read_text(encoding="utf-8") == MADE[name]


@pytest.mark.parametrize(("recipe", "scale"), PLANS)
def test_a_committed_table_renders_in_every_format(recipe: str, scale: str) -> None:
    for sheet in shown(recipe, RESULTS, scale):
        for form, write in render.WRITERS.items():
            assert len(write(sheet)) > 200, form
        json.dumps(render.data(sheet), allow_nan=False)


def test_the_command_writes_every_page_and_the_same_bytes_again(splitbench: Command, tmp_path: Path) -> None:
    filled(tmp_path / "store")
    written = []
    for folder in ("one", "two"):
        said = splitbench("table", "--all", "--store", tmp_path / "store", "--write", tmp_path / folder)
        assert said.code == 0
        written.append({p.relative_to(tmp_path / folder): p.read_bytes() for p in (tmp_path / folder).rglob("*.*")})
    assert written[0] == written[1]
    assert set(map(str, written[0])) == {"README.md", "seal/table2.md", "seal/table2.tex", "seal/claims.md"}
    page = written[0][Path("README.md")].decode()
    assert "- [seal/table2](seal/table2.md): seal/table2. 48 of 48 cells, scale desk." in page
    assert "- [seal/claims](seal/claims.md): what the paper's text claims: 4 holds" in page


def test_pages_of_other_commands_are_listed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "rpi4.md").write_text("# What it costs\n\nmuch\n")
    assert "- [profile/rpi4](profile/rpi4.md): What it costs" in pages(tmp_path)["README.md"]


def test_bad_questions(splitbench: Command, tmp_path: Path) -> None:
    for arguments in (["--all"], ["--write", "x"], ["seal/table2", "--all", "--write", "x"]):
        said = splitbench("table", *arguments, "--store", tmp_path)
        assert said.code == 2
        assert "go together" in said.err
    with pytest.raises(SplitbenchError, match="no recipe was run"):
        pages(tmp_path)
