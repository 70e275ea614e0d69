"""A figure shows what was stored, below the originals, a panel for each data set, defense and rung of knowledge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import generator
from splitbench.plan.recipe import Recipe
from splitbench.report.figure import draw, figure
from splitbench.runner import runfolder
from tests.report._rows import Rows

TRUTH = torch.rand(5, 1, 8, 8, generator=generator(0))
SEAL = {"defense": "seal", "settings": {"omega": 0.7}, "dataset": "mnist"}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """fora at three rungs and unsplit at none, and fora undefended."""
    made = Rows(tmp_path)
    for attack, knowledge, at in [("fora", "none", {"dataset": "mnist"}), ("fora", "none", SEAL),
                                  ("unsplit", "none", SEAL), ("fora", "exact", SEAL)]:  # fmt: skip
        key = made.attack(attack, 0.5, knowledge=knowledge, **at)
        outcome = made.store.get(key)
        assert outcome is not None
        guess = TRUTH.flip(0) if knowledge == "exact" else 1 - TRUTH
        runfolder.save_recovered(made.store, outcome.run, key, {"inputs": guess}, TRUTH)
    made.attack("mean_image", 0.1, **SEAL)
    made.plan("own/figure")
    return made


def test_defended_runs_make_panels_of_the_stored_images(rows: Rows) -> None:
    panels, problems = figure("own/figure", store=rows.store.path, images=3)
    assert [panel.title for panel in panels] == ["mnist · seal", "mnist · seal, its secret known"]
    assert [row.attack for row in panels[0].rows] == ["fora", "unsplit"]  # no floor: it looks at nothing
    assert not problems
    bytes_of = lambda x: (x[:3].permute(0, 2, 3, 1).numpy().astype(np.float64) * 255).round()  # noqa: E731
    np.testing.assert_allclose(panels[0].originals, bytes_of(TRUTH), atol=1)
    np.testing.assert_allclose(panels[1].rows[0].images, bytes_of(TRUTH.flip(0)), atol=1)
    assert panels[0].rows[0].value == pytest.approx(0.5)


def test_settings_are_told_only_where_a_panel_has_an_attack_twice(rows: Rows) -> None:
    [one] = [
        o for o in rows.store.outcomes()[0] if o.attack == "fora" and o.defense != "none" and o.knowledge == "none"
    ]
    longer = replace(one, key=f"{one.key}-longer", attack="fora(steps=900)")
    rows.store.put(replace(one, attack="fora(steps=100)"))
    assert [row.attack for row in figure("own/figure", store=rows.store.path)[0][0].rows] == ["fora", "unsplit"]
    rows.store.put(longer)
    runfolder.save_recovered(rows.store, longer.run, longer.key, {"inputs": TRUTH}, TRUTH)
    rows.keys.append(longer.key)
    rows.plan("own/figure")
    names = [row.attack for row in figure("own/figure", store=rows.store.path)[0][0].rows]
    assert names == ["fora(steps=100)", "unsplit", "fora(steps=900)"]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_same_panels_give_the_same_bytes(rows: Rows, tmp_path: Path, kind: str) -> None:
    panels, _ = figure("own/figure", store=rows.store.path)
    files = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for file in files:
        draw(file, panels, "A title")
    assert files[0].read_bytes() == files[1].read_bytes()
    if kind == "png":
        with Image.open(files[0]) as image:
            dark = (np.asarray(image.convert("L")) < 128).mean()
        assert 0.02 < dark < 0.7  # neither blank nor black


def test_a_damaged_file_is_named_and_the_rest_is_shown(rows: Rows) -> None:
    damaged = next(rows.store.path.glob("trained/*seal*/attacks/*unsplit*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    panels, problems = figure("own/figure", store=rows.store.path)
    assert [row.attack for row in panels[0].rows] == ["fora"]
    assert len(problems) == 1
    assert damaged.name in problems[0]


@pytest.mark.parametrize(
    ("recipe", "images", "said"),
    [
        ("own/figur", 6, "did you mean 'own/figure'"),
        ("own/figure", 0, "from 1 to 12"),
        ("own/figure", 13, "from 1 to 12"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(rows: Rows, recipe: str, images: int, said: str) -> None:
    with pytest.raises(SplitbenchError, match=said):
        figure(recipe, store=rows.store.path, images=images)


def test_rows_without_pictures_say_how_to_make_them(tmp_path: Path) -> None:
    made = Rows(tmp_path)
    made.attack("fora", 0.5, **SEAL)
    made.plan("own/figure")
    with pytest.raises(SplitbenchError, match="splitbench run own/figure"):
        figure("own/figure", store=tmp_path)


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_a_figure_of_seal_has_cells_of_its_table(
    number: int, scale: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    place = Path(__file__).parents[2] / "recipes" / "seal"
    drawn, table = (Recipe.load(place / f"{name}{number}.yaml", scale) for name in ("figure", "table"))
    assert {cell.key for cell in drawn.cells} <= {cell.key for cell in table.cells}
