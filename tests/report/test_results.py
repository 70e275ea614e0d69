"""The committed results: their tables render from the committed rows, and say what the committed text says."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.bench.store import Store
from splitbench.report import render
from splitbench.report.table import table

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize(("recipe", "scale"), Store(RESULTS).plans())
def test_a_committed_table_is_what_its_rows_say(recipe: str, scale: str) -> None:
    made = table(recipe, store=RESULTS, scale=scale)
    assert "\n".join(map(render.markdown, made)) == (RESULTS / f"{recipe}.md").read_text(encoding="utf-8")
    assert "\n".join(map(render.latex, made)) == (RESULTS / f"{recipe}.tex").read_text(encoding="utf-8")


def test_there_are_results() -> None:
    assert Store(RESULTS).plans()
