"""The command beside a row makes that very row: the command line, read again, plans a cell with the same key."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.cli._settings import value
from splitbench.cli.main import app, main
from splitbench.plan.cells import Cell
from splitbench.report.reproduce import ATTACK, TRAIN, _text, again
from splitbench.runner import api
from splitbench.store.store import Store

Parse = Callable[[str], Cell]


class PlannedError(Exception):
    """Stops a command where it would begin to work."""


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Parse:
    """The cell that a command line asks for."""
    monkeypatch.setenv("SPLITBENCH_STORE", str(tmp_path / "runs"))

    def stop(cells: list[Cell], *_: Any, **__: Any) -> None:
        raise PlannedError(cells[-1])

    monkeypatch.setattr(api, "run_cells", stop)

    def read(line: str) -> Cell:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(PlannedError) as found:
            main()
        cell = found.value.args[0]
        assert isinstance(cell, Cell)
        return cell

    return read


DEFENSE = """
from dataclasses import dataclass
from splitbench.core.defense import Defense

@dataclass(frozen=True)
class Keep(Defense):
    share: float = 0.5
    batch: int = 3
    mode: str = "none"
"""

RUNS: list[dict[str, Any]] = [
    {},
    {"defense": {"gaussian": {"sigma": 0.25}}, "seed": 3, "training": {"epochs": 2, "lr": 1e-5}},
    {"defense": {"gaussian": {}}, "scale": "smoke", "record": True},
    {"defense": [{"gaussian": {"sigma": 2}}, {"nopeek": {"weight": 0.5}}]},
    {"defense": [{"nopeek": {"weight": 0.5}}, {"dcor": {"weight": 0.25}}]},  # two settings of one name
    {"defense": ["gaussian", "gaussian"]},
    {"defense": {"seal": {"omega": 0.4, "function": "cos(x)+0.9cos(2x)"}}},
    {"defense": {"seal": {"omega": 0.7, "key": 7}}, "topology": "u_shaped", "model": {"resnet18": {"width": 0.25}}},
    {"training": {"optimizer": "sgd", "momentum": 0.5, "weight_decay": 5e-4, "schedule": "cosine", "warmup": 2}},
    {"clients": 4, "partition": "dirichlet", "alpha": 0.1, "topology": "parallel", "protected": 2,
     "defense": {"gaussian": {"sigma": 1.5}}},
    {"training": {"augment": ["flip", "crop"], "crop": 2, "label_smoothing": 0.1, "schedule": "one_cycle",
                  "precision": "bf16"}},
    {"auxiliary": "own.npz", "samples": {"private": 96, "auxiliary": 32, "evaluation": 4, "candidates": 7}},
    {"samples": {"private": 96, "auxiliary": 32, "evaluation": 4}, "model": "lenet5", "cut": "conv1"},
    {"defense": {"own.py:Keep": {"share": 0.25, "batch": 9, "mode": "1e5"}}, "model": "lenet5", "cut": "conv1"},
    {"data": "own.npz", "model": "lenet5", "cut": "conv1", "samples": {"private": 40, "auxiliary": 8, "evaluation": 4}},
]  # fmt: skip


def planned(run: dict[str, Any]) -> Cell:
    several = run.get("defense", "none")
    rest = {k: v for k, v in run.items() if k not in ("defense", "seed")}
    document = {
        **rest,
        "defenses": [several if isinstance(several, list) else [several]],
        "seeds": [run.get("seed", 0)],
    }
    return api.planned(document, run.get("scale", "desk")).cells[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(DEFENSE)
    rng = np.random.default_rng(0)
    arrays = {f"x_{s}": rng.integers(0, 256, (80, 28, 28, 1), dtype=np.uint8) for s in ("train", "test")}
    np.savez(tmp_path / "own.npz", **arrays, **{f"y_{s}": np.arange(80) % 5 for s in ("train", "test")})
    return tmp_path


@pytest.mark.parametrize("run", RUNS, ids=[str(i) for i in range(len(RUNS))])
def test_a_training_is_asked_for_again(run: dict[str, Any], parse: Parse, here: Path) -> None:
    cell = planned(run)
    command = again(cell.document())
    assert command.caveat == ""
    assert parse(command.text).key == cell.key


ATTACKS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("inversion", {}, {}),
    ("inversion", {"knowledge": "exact", "rounds": 8}, {"budget": 50}),
    ("fsha", {"tampers": True}, {}),
    ("fora", {"auxiliary": 16, "queries": 0, "architecture": False}, {"restarts": 3}),
    ("unsplit", {}, {"budget": "2m"}),
    ("unsplit", {}, {"budget": "0.1m", "restarts": 2}),
    ("black", {}, {}),
    ("black", {"party": "client0"}, {}),
    ("black", {"party": "client0", "labels": True}, {"restarts": 2}),
]


@pytest.mark.parametrize(("name", "threat", "effort"), ATTACKS)
def test_an_attack_is_asked_for_again(
    name: str, threat: dict[str, Any], effort: dict[str, Any], parse: Parse, here: Path
) -> None:
    cell = mounted(here, name, threat, {}, effort)
    command = again(cell.document())
    assert command.caveat == ("what it reaches in so many minutes depends on the machine" if cell.minutes else "")
    assert parse(command.text).key == cell.key


@pytest.mark.parametrize(
    ("run", "threat"),
    [
        ({"topology": "u_shaped"}, {}),
        ({"topology": "u_shaped"}, {"labels": True}),
        ({"record": True}, {}),
        ({"record": True}, {"transcript": False}),
    ],
)
def test_what_the_adversary_holds_by_default_depends_on_the_run(
    run: dict[str, Any], threat: dict[str, Any], parse: Parse, here: Path
) -> None:
    cell = mounted(here, "inversion", threat, run, {})
    assert parse(again(cell.document()).text).key == cell.key


def mounted(here: Path, name: str, threat: dict[str, Any], run: dict[str, Any], effort: dict[str, Any]) -> Cell:
    store = Store(here / "runs")
    trained = planned(run)
    folder = store.run_folder(trained.key)
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(trained.run.document(), sort_keys=False))
    cell = api.attack_cell(name, trained.key, store, threat)
    return api.efforts(cell, effort.get("budget"), effort.get("restarts", 1)) if effort else cell


def test_other_settings_of_an_attack_are_said(parse: Parse, here: Path) -> None:
    given = {"inversion": {"steps": 7}}
    cell = mounted(here, given, {}, {}, {})  # type: ignore[arg-type]
    command = again(cell.document()).text
    assert "--steps 7" in command
    assert parse(command).key == cell.key


def test_a_row_of_another_version_says_that_it_cannot_be_had_again() -> None:
    cell = planned({"defense": "gaussian"})
    [part] = cell.run.defenses
    older = replace(cell, run=replace(cell.run, defenses=(replace(part, version=0),)))
    assert again(older.document()).caveat == "the row is of version 0 of gaussian, and this splitbench has version 1"


def test_what_no_command_line_can_say_is_told() -> None:
    cell = planned({"defense": [{"gaussian": {"sigma": 1}}, {"gaussian": {"sigma": 2}}]})
    command = again(cell.document())
    assert command.text == ""
    assert "gaussian stands twice" in command.caveat
    assert again({"run": {"x": 1}}).caveat == "the row does not hold its whole recipe"


def test_the_options_of_the_commands_are_known() -> None:
    """A setting that is called as an option is must say whose it is."""
    group = typer.main.get_command(app)
    for name, known in (("train", TRAIN), ("attack", ATTACK)):
        command = group.commands[name]  # type: ignore[attr-defined]
        options = {word for p in command.params for word in (*p.opts, *p.secondary_opts) if word.startswith("--")}
        assert {o.removeprefix("--").replace("-", "_") for o in options} | {"help"} == known


@settings(max_examples=150, deadline=None)
@given(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.lists(st.integers(), max_size=3)
)  # fmt: skip
def test_any_value_is_read_as_it_was_written(given: Any) -> None:
    text = _text(given)
    found = value(text)
    assert found == given
    assert type(found) is type(given) or (isinstance(given, int) and isinstance(found, int))
