"""Components from a user's own files, those of the README, through every command."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from splitbench.core.data import as_input
from splitbench.plan import components
from splitbench.plan.feasible import load_data
from splitbench.runner import runfolder
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store
from tests.conftest import Command, Said

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SMALL = {"private": 48, "auxiliary": 24, "evaluation": 4, "candidates": 12}
QUICK = ("--private", "48", "--auxiliary", "24", "--evaluation", "4", "--candidates", "12", "--batch", "16",
         "--epochs", "1")  # fmt: skip
OWN_ATTACKS = ("my_attack.py:Nearest", "my_membership.py:Loss")


def files() -> dict[str, str]:
    """Every file that the README asks to be saved."""
    blocks = re.findall(r"```(?:python|yaml)\n# (my_\w+\.\w+)\n(.*?)```", README, flags=re.DOTALL)
    return dict(blocks)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, and a store beside them that all tests here share."""
    place = tmp_path_factory.mktemp("own")
    for name, body in files().items():
        (place / name).write_text(body)
    recipe = yaml.safe_load((place / "my_recipe.yaml").read_text())
    recipe |= {"training": {"epochs": 1, "batch": 16}, "samples": SMALL}
    recipe["bar"] = {"accuracy": 1.1}
    (place / "my_recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    draws = np.random.default_rng(0)
    images = {f"x_{s}": draws.integers(0, 256, (n, 28, 28, 1), np.uint8) for s, n in (("train", 120), ("test", 40))}
    np.savez(place / "my_images.npz", **images, y_train=np.arange(120) % 5, y_test=np.arange(40) % 5)
    with (place / "my_table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["height", "colour", "label"])
        table.writerows([f"{draws.normal():.4f}", draws.choice(["red", "green"]), i % 2] for i in range(200))
    return place


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch, splitbench: Command) -> Path:
    monkeypatch.chdir(place)
    monkeypatch.setenv("SPLITBENCH_STORE", str(place / "runs"))
    return place


def answered(said: Said) -> Any:
    assert said.code == 0, said.err
    return json.loads(said.out)


def test_the_readme_has_a_file_for_every_kind_of_component() -> None:
    wanted = {"my_data.py", "my_model.py", "my_topology.py", "my_defense.py", "my_attack.py", "my_metric.py"}
    assert wanted <= set(files())


CASES = {
    "data from a class": ("--dataset", "my_data.py:Stripes", "--model", "lenet5", "--cut", "conv1"),
    "data from an npz": ("--dataset", "my_images.npz", "--model", "lenet5", "--cut", "conv1"),
    "data from a csv": ("--dataset", "my_table.csv", "--model", "field_mlp", "--cut", "fields"),
    "a model": ("--model", "my_model.py:Small", "--cut", "first"),
    "a topology": ("--topology", "my_topology.py:OneWay", "--clients", "2", "--model", "lenet5", "--cut", "conv1"),
    "a defense": ("--defense", "my_defense.py:Keep", "--share", "0.25", "--model", "lenet5", "--cut", "conv1"),
}


@pytest.mark.parametrize("options", CASES.values(), ids=list(CASES))
def test_each_alone_trains_is_attacked_evaluated_and_shown(
    options: tuple[str, ...], splitbench: Command, here: Path
) -> None:
    trained = answered(splitbench("train", *options, *QUICK, "--json"))
    assert trained["status"] == "done", trained["reason"]
    run = trained["run"]
    table_of_rows = "my_table.csv" in options
    mounted = ["lookup"] if table_of_rows else ["mean_image", "my_attack.py:Nearest"]
    for attack in (*mounted, "my_membership.py:Loss"):
        found = answered(splitbench("attack", attack, "--run", run, "--json"))
        assert found["status"] == "done", found["reason"]
    rows = answered(splitbench("evaluate", "--run", run, "--json"))["rows"]
    assert {row["goal"] for row in rows} == {"", "inputs", "membership"}
    assert {row["what"] for row in rows if row["role"] == "attack"} >= {"my_membership.py:Loss"}
    for command in (("show", run), ("checklist", run), ("table",)):
        said = splitbench(*command)
        assert said.code == 0, (command, said.err)


@pytest.fixture
def done(splitbench: Command, here: Path) -> dict[tuple[str, str], Outcome]:
    """The README's recipe, with everything from files, by attack and defense."""
    said = splitbench("run", "my_recipe.yaml")
    assert said.code == 0, said.out + said.err
    plan = Store(here / "runs").plan("my_recipe", "desk")
    assert plan is not None
    rows = [o for o in Store(here / "runs").outcomes()[0] if o.key in plan["cells"]]
    assert len(rows) == len(plan["cells"]) == 8
    return {(o.attack.partition("(")[0], o.defense.partition("(")[0]): o for o in rows}


def test_a_recipe_of_own_components_is_run_and_every_cell_is_a_row(
    done: dict[tuple[str, str], Outcome], here: Path
) -> None:
    assert [o.status for o in done.values()] == ["done"] * 8, [o.reason for o in done.values()]
    assert {attack for attack, _ in done} == {"", "mean_image", *OWN_ATTACKS}
    assert {defense for _, defense in done} == {"none", "my_defense.py:Keep"}
    assert {o.dataset for o in done.values()} == {"my_data.py:Stripes"}


def test_an_own_metric_scores_what_an_own_attack_recovered(done: dict[tuple[str, str], Outcome], here: Path) -> None:
    """By hand: the share of pixels of the guess within 0.2 of the original's."""
    row = done["my_attack.py:Nearest", "my_defense.py:Keep"]
    [score] = [s for s in row.scores if s.metric.startswith("my_metric.py:Within") and s.readout == "clamp"]
    part, _ = components.resolve("data", "my_data.py:Stripes", "data")
    assert part is not None
    images = as_input(load_data(part).test.x[list(row.samples)])
    guess = runfolder.load_recovered(Store(here / "runs"), row.run, row.key)["inputs"].clamp(0, 1)
    assert list(score.values) == pytest.approx(((guess - images).abs() <= 0.2).double().mean((1, 2, 3)).tolist())


def test_tables_claims_page_and_figure_of_own_components(
    done: dict[tuple[str, str], Outcome], splitbench: Command, here: Path
) -> None:
    row = done["my_attack.py:Nearest", "my_defense.py:Keep"]
    score = next(s for s in row.scores if s.metric.startswith("my_metric.py:Within"))
    for options in (("my_recipe",), ("my_recipe", "--metric", score.metric)):
        for form in ("text", "markdown", "latex", "csv", "html", "json"):
            said = splitbench("table", *options, "--format", form)
            assert said.code == 0, (options, form, said.err)
    text = splitbench("table", "my_recipe", "--metric", score.metric, "--format", "csv").out
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert any(cell.startswith(f"{score.value:.3f}") or cell.startswith(f"{score.value:.6f}"[:5]) for cell in cells)
    ssim = row.score("ssim")
    assert ssim is not None
    assert f"{ssim.value:.3f}" in splitbench("table", "my_recipe", "--format", "markdown").out
    assert splitbench("report", "--output", "page.html").code == 0
    html = Path("page.html").read_text()
    for name in ("my_attack.py:Nearest", "my_defense.py:Keep", "my_data.py:Stripes", "my_model.py:Small"):
        assert name in html, name
    assert splitbench("figure", "my_recipe", "--output", "mine.png").code == 0
    assert Path("mine.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_of_it_changes_nothing(done: dict[tuple[str, str], Outcome], splitbench: Command) -> None:
    before = {o.key: o for o in done.values()}
    assert splitbench("run", "my_recipe.yaml").code == 0
    after = {o.key: o for o in Store().outcomes()[0] if o.key in before}
    assert after == before


def test_rows_stay_readable_when_the_files_are_gone(
    done: dict[tuple[str, str], Outcome],
    splitbench: Command,
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is stored never needs the source of a component again."""
    monkeypatch.chdir(tmp_path)
    assert splitbench("table").code == 0
    assert splitbench("report", "--output", "page.html").code == 0
    assert "my_attack.py:Nearest" in Path("page.html").read_text()
