"""Recipes of profiles, and SEAL's table 4."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.edge.recipe import ProfileRecipe
from splitbench.plan import recipes
from splitbench.runner.api import check
from tests.conftest import Command

RESULTS = Path(__file__).parents[2] / "results" / "seal"
NAMES = [name for name in recipes.names() if recipes.counts_only(recipes.find(name)[1])]


def test_seals_table_4_is_one() -> None:
    assert "seal/table4" in NAMES
    with pytest.raises(SplitbenchError, match="nothing to run; `splitbench table seal/table4`"):
        check("seal/table4")


@pytest.mark.slow
def test_seals_table_4_has_the_papers_parameters(splitbench: Command) -> None:
    pytest.importorskip("transformers")
    said = splitbench("table", "seal/table4", "--format", "markdown")
    assert said.code == 0, said.err
    assert said.out.count("= paper") == 8  # the paper leaves one number out
    assert "(paper:" not in said.out
    assert "38 603 520" in said.out
    latex = splitbench("table", "seal/table4", "--format", "latex").out
    committed = [(RESULTS / f"table4.{ending}").read_text(encoding="utf-8") for ending in ("md", "tex")]
    assert committed[0].startswith(said.out)
    assert committed[1] == latex


def test_every_mistake_in_a_recipe_of_profiles_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "titel: T\nprofile:\n  A: {model: lenet6, shape: 1x28x28}\n  B: {model: lenet5, shape: 1x28}\n"
        "  C: {modle: lenet5}\ncolumns: [macs]\npaper:\n  values:\n    D: {parameters: 3}\n"
    )
    with pytest.raises(SplitbenchError) as caught:
        ProfileRecipe.load(path)
    text = str(caught.value)
    for said in ("titel (line 1)", "'lenet5'?", "profile.B.shape (line 4)", "profile.C (line 5)", "columns (line 6)",
                 "paper.values.D (line 9)", "6 mistakes"):  # fmt: skip
        assert said in text, text


def test_a_row_that_cannot_be_counted_here_stands_beside_the_papers_value(
    splitbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: T\ndevice: rpi4\nprofile:\n  A: {model: lenet5, cut: conv1, shape: 1x28x28, classes: 10, batch: 2}\n"
        "  B: {model: roberta_small, cut: embeddings, shape: 16, classes: 2, batch: 2}\n"
        "columns: [client_parameters]\npaper:\n  values:\n    B: {client_parameters: 7}\n"
    )
    said = splitbench("table", str(path), "--format", "markdown")
    assert said.code == 0, said.err
    assert "| B | not counted (paper: 7) |" in said.out
    assert "splitbench[text]" in said.err
