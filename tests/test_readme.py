"""Every example of the README works as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Command

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.DOTALL)
QUICK = ["--model", "lenet5", "--cut", "conv1"]
SMALL = ["--private", "96", "--auxiliary", "32", "--evaluation", "4", "--batch", "32"]


def files() -> dict[str, str]:
    """Every example that is a file, by the name in its first line."""
    found = {}
    for language, body in BLOCKS:
        first = body.splitlines()[0].removeprefix("# ")
        if language in ("python", "yaml") and body.startswith("# "):
            found[first] = body
    return found


def between(marker: str) -> str:
    """What stands between two comments."""
    return TEXT.split(f"<!-- {marker} -->\n")[1].split(f"<!-- /{marker} -->")[0]


def section(title: str, level: str = "###") -> list[str]:
    """The command lines under a heading."""
    body = TEXT.split(f"\n{level} {title}\n")[1].split("\n### ")[0].split("\n## ")[0]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", body, flags=re.DOTALL) for line in block.splitlines()]
    return [line.split("#")[0].strip() for line in lines]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, body in files().items():
        (tmp_path / name).write_text(body)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(splitbench: Command, line: str, *further: str) -> str:
    program, *arguments = shlex.split(line)
    assert program == "splitbench"
    said = splitbench(*arguments, *further)
    assert said.code == 0, said.err
    return said.out


def test_the_readme_has_its_examples() -> None:
    own = {"data", "model", "topology", "defense", "attack", "membership", "metric"}
    assert set(files()) == {*(f"my_{name}.py" for name in own), "my_recipe.yaml"}


def test_own_data(splitbench: Command, here: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"x_{s}": rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8) for s, n in (("train", 200), ("test", 40))}
    labels = {f"y_{s}": np.arange(n) % 5 for s, n in (("train", 200), ("test", 40))}
    np.savez(here / "my_images.npz", **arrays, **labels)
    rows = [f"{rng.normal():.3f},{'abc'[i % 3]},{i % 2}" for i in range(240)]
    (here / "my_table.csv").write_text("\n".join(["length,colour,label", *rows]))
    lines = section("Data")
    for line, name in zip(lines, ("my_images.npz", "my_table.csv", "my_data.py:Stripes"), strict=True):
        assert name in run(splitbench, line, *SMALL, "--epochs", "1")
        assert run(splitbench, "splitbench evaluate")


def test_own_model(splitbench: Command, here: Path) -> None:
    [line] = section("A model")
    assert "Small" in run(splitbench, line, *SMALL)


def test_own_topology(splitbench: Command, here: Path) -> None:
    [line] = section("A topology")
    assert run(splitbench, line, *SMALL, *QUICK)
    assert "ssim" in run(splitbench, "splitbench attack mean_image")


def test_own_defense(splitbench: Command, here: Path) -> None:
    [line] = section("A defense")
    assert "share=0.25" in run(splitbench, line, *SMALL, *QUICK)
    for knowledge in ("none", "family", "exact"):
        said = run(splitbench, f"splitbench attack inversion --steps 3 --knowledge {knowledge}")
        assert "undefended" in said


def test_own_attacks(splitbench: Command, here: Path) -> None:
    splitbench("train", *SMALL, *QUICK, "--epochs", "1")
    inputs, train, membership = section("An attack")
    assert "ssim" in run(splitbench, inputs)
    run(splitbench, train.replace("100", "16"), *SMALL, *QUICK, "--epochs", "1")
    assert "auc" in run(splitbench, membership)
    assert "membership" in run(splitbench, "splitbench evaluate")


def test_a_recipe_of_ones_own_goes_through_every_command(splitbench: Command, here: Path) -> None:
    lines = section("All of it in a recipe")
    assert [shlex.split(line)[1] for line in lines] == ["run", "table", "figure", "report"]
    for line in lines:
        assert run(splitbench, line)
    assert (here / "mine.png").is_file()
    page = (here / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("Stripes", "Keep", "Nearest", "Loss"))
    for command in (
        "check my_recipe.yaml",
        "table",
        "evaluate",
        "checklist",
        "ls runs",
        "export my_recipe --to all.zip",
    ):
        assert run(splitbench, f"splitbench {command}")
    assert run(splitbench, "splitbench verify all.zip")


def test_goals(splitbench: Command, here: Path) -> None:
    train, labels, membership = section("Goals, and who attacks", "##")
    run(splitbench, train.replace("200", "16"), *SMALL, *QUICK, "--epochs", "1")
    assert "majority by client1" in run(splitbench, labels)
    assert "auc" in run(splitbench, membership)


def test_data_that_is_no_image(
    splitbench: Command, here: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    [line] = [line for line in section("Data", "##") if "criteo" in line]
    assert "criteo" in run(splitbench, line, *SMALL, "--rows", "600", "--epochs", "1")
    assert "field_accuracy" in run(splitbench, "splitbench attack lookup")


def test_the_threat_model_is_the_one_in_the_code() -> None:
    from splitbench.core.threat import ThreatModel
    from splitbench.plan.fields import fields_of

    rows = [f"| `{field.name}` | {field.note} |" for field in fields_of(ThreatModel)]
    assert between("threat").splitlines() == ["| field | meaning |", "| --- | --- |", *rows]


def test_the_goals_are_those_in_the_code() -> None:
    from splitbench.core.goal import ANY, GOALS, Goal

    def row(goal: Goal) -> str:
        ranks = [f"`{metric}`" if kind == ANY else f"`{metric}` ({kind})" for kind, metric in goal.ranks.items()]
        floors = [f"`{name}`" for name in goal.floors]
        return f"| `{goal.name}` | {goal.truth} | {', '.join(ranks)} | {', '.join(floors)} |"

    head = ["| goal | truth | ranked by | floors |", "| --- | --- | --- | --- |"]
    assert between("goals").splitlines() == [*head, *map(row, GOALS.values())]


def test_every_attack_is_listed_with_its_goal() -> None:
    from splitbench.core import registry

    listed = {
        name: cells[2].strip()
        for line in TEXT.split("\n## Attacks\n")[1].split("\n## ")[0].splitlines()
        if line.startswith("| `") and (cells := line.split("|"))
        for name in re.findall(r"`(\w+)`", cells[1])
    }
    assert listed == {name: registry.declared("attacks", name, "goal") for name in registry.names("attacks")}


def test_the_columns_are_those_of_a_row() -> None:
    from splitbench.store.outcome import SCHEMA

    names = [
        name for line in between("columns").splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]
    assert sorted(names) == sorted(SCHEMA.names)


def test_python_calls(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBENCH_STORE", str(here / "runs"))
    [body] = [body for language, body in BLOCKS if language == "python" and body.startswith("import splitbench")]
    samples = 'samples={"private": 64, "auxiliary": 32, "evaluation": 6}'
    small = body.replace(
        'training={"epochs": 3}', f'training={{"epochs": 1}}, model="lenet5", cut="conv1", {samples}'
    ).replace('"inversion"', '{"inversion": {"steps": 3}}')
    assert small != body
    scope: dict[str, object] = {}
    exec(compile(small, "README.md", "exec"), scope)
    assert scope["tables"]


def test_the_papers_table_is_what_the_command_prints() -> None:
    from splitbench.report.tables import render
    from splitbench.report.tables.paper_table import paper_table

    assert between("paper table") == render.markdown(paper_table("seal/table1", side="paper"))


def test_every_command_line_is_one_that_exists() -> None:
    from splitbench.cli.main import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback} | {"account", "data"}  # type: ignore[union-attr]
    lines = [line for language, body in BLOCKS if language == "sh" for line in body.splitlines()]
    used = {shlex.split(line)[1] for line in lines if line.startswith("splitbench")}
    assert used <= known
    assert known - used == {"run"} - used


def test_the_profile_shown_is_the_one_printed(splitbench: Command, here: Path) -> None:
    pytest.importorskip("thop")
    shown = between("profile")
    line = re.search(r"`(splitbench profile [^`]*)` printed it", TEXT)
    assert line is not None
    assert run(splitbench, line[1]).strip() == shown.strip()


def test_edge(splitbench: Command, here: Path) -> None:
    lines = section("What it costs at the edge", "##")
    assert len(lines) == 5
    quick = ["--compare", "cut=conv1", "--compare", "batch=8", "--compare", "defense=none"]
    for line in lines[:4]:
        assert run(splitbench, line, *(quick if "--budget" in line else ["--batch", "2"]))
    assert (here / "costs.png").is_file()
    assert (here / "costs.parquet").is_file()


def test_attacks(splitbench: Command, here: Path) -> None:
    assert splitbench("train", "--defense", "gaussian", "--sigma", "0.5", *SMALL, *QUICK, "--epochs", "1").code == 0
    aligned = ["--warm", "2", "--steps", "1", "--decoder-steps", "2"]
    quick = {"unsplit": ["--outer", "3", "--inner", "2"], "fsha": [*aligned, "--meet", "2"]}
    lines = section("Attacks", "##")
    assert len(lines) == 6
    for line in lines:
        said = run(splitbench, line, *quick.get(shlex.split(line)[2], aligned))
        assert "ssim" in said
        assert "undefended" in said
        assert ("verdict" in said) == ("--double" in line)


def test_patch_shuffling(splitbench: Command, here: Path) -> None:
    lines = [line for line in section("Patch shuffling", "##") if "patch_shuffling/" not in line]
    assert [shlex.split(line)[1] for line in lines] == [
        "claims",
        "train",
        *["attack"] * 3,
        "train",
        "attack",
        "account",
    ]
    quick = {"train": [*SMALL, "--epochs", "1"], "attack": ["--steps", "2"]}
    for line in lines:
        command = shlex.split(line)[1]
        further = ["--pretrain-epochs", "1"] if "--pretrain " in line else []
        said = run(splitbench, line.replace("--rounds 30", "--rounds 2"), *quick.get(command, []), *further)
        assert said
        assert command != "attack" or "undefended" in said
