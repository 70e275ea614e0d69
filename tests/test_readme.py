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
    found = {}
    for language, body in BLOCKS:
        if language == "python" and body.startswith("# "):
            found[body.splitlines()[0].removeprefix("# ")] = body
    return found


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
    assert set(files()) == {"my_model.py", "my_defense.py", "my_attack.py"}


def test_own_data(splitbench: Command, here: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"x_{s}": rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8) for s, n in (("train", 200), ("test", 40))}
    labels = {f"y_{s}": np.arange(n) % 5 for s, n in (("train", 200), ("test", 40))}
    np.savez(here / "my_images.npz", **arrays, **labels)
    [line] = section("Data")
    assert "my_images.npz" in run(splitbench, line, *SMALL, "--epochs", "1")


def test_own_model(splitbench: Command, here: Path) -> None:
    [line] = section("A model")
    assert "Small" in run(splitbench, line, *SMALL)


def test_own_defense(splitbench: Command, here: Path) -> None:
    [line] = section("A defense")
    assert "share=0.25" in run(splitbench, line, *SMALL, *QUICK)


def test_own_attack(splitbench: Command, here: Path) -> None:
    splitbench("train", *SMALL, *QUICK, "--epochs", "1")
    [line] = section("An attack")
    assert "ssim" in run(splitbench, line)


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

    shown = TEXT.split("<!-- paper table -->\n")[1].split("<!-- /paper table -->")[0]
    assert shown == render.markdown(paper_table("seal/table1", side="paper"))


def test_the_claim_is_judged_as_the_readme_says() -> None:
    from splitbench.report.claims.judge import claims
    from splitbench.report.claims.scorecard import told

    scored, _ = claims("seal/table2", store=Path(__file__).parents[1] / "results")
    [black] = [s for s in scored if s.claim.id == "black-background"]
    assert black.verdict == "holds"
    assert told(black.deciding) in " ".join(TEXT.split())


def test_every_command_line_is_one_that_exists() -> None:
    from splitbench.cli.main import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback} | {"data"}  # type: ignore[union-attr]
    lines = [line for language, body in BLOCKS if language == "sh" for line in body.splitlines()]
    used = {shlex.split(line)[1] for line in lines if line.startswith("splitbench")}
    assert used <= known
    assert known - used == {"run"} - used


def test_the_profile_shown_is_the_one_printed(splitbench: Command, here: Path) -> None:
    pytest.importorskip("thop")
    shown = TEXT.split("<!-- profile -->\n")[1].split("<!-- /profile -->")[0]
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
