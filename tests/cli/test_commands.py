"""Commands as a new user would type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Command


def test_train_attack_evaluate_table(splitbench: Command, tiny: tuple[str, ...], tmp_path: Path) -> None:
    trained = splitbench("train", "--defense", "gaussian", "--sigma", "0.5", *tiny)
    assert trained.code == 0, trained.err
    assert "gaussian(sigma=0.5)" in trained.out
    assert "accuracy" in trained.out
    attacked = splitbench("attack", "inversion", "--run", "latest", "--steps", "5")
    assert attacked.code == 0, attacked.err
    assert "ssim" in attacked.out
    picture = Path(attacked.out.split("picture:")[1].strip())
    assert picture.read_bytes().startswith(b"\x89PNG")
    evaluated = splitbench("evaluate", "--run", "latest")
    assert evaluated.code == 0, evaluated.err
    for words in ("accuracy@1", "mcc@1", "ssim@wang2004", "mean_image", "inversion", "nearest_auxiliary"):
        assert words in evaluated.out
    table = splitbench("table")
    assert table.code == 0, table.err
    assert "gaussian(sigma=0.5)" in table.out
    assert "scale desk" in table.out


def test_the_same_as_python_calls(tmp_path: Path) -> None:
    import splitbench as sb

    run = sb.train(
        {"gaussian": {"sigma": 0.5}},
        store=tmp_path,
        model="lenet5",
        cut="conv1",
        training={"epochs": 1},
        samples={"private": 64, "auxiliary": 16, "evaluation": 4},
    )
    assert run.status == "done"
    guess = sb.attack("mean_image", run=run.run, store=tmp_path)
    assert guess.score("ssim") is not None
    rows = sb.evaluate(run=run.run[:6], store=tmp_path)
    assert {row.attack for row in rows} >= {"", "black", "mean_image"}
    [table] = sb.table(store=tmp_path)
    assert table.entry("gaussian(sigma=0.5)", "mean_image").mean == guess.score("ssim").value  # type: ignore[union-attr]


def test_a_recipe_from_its_plan_to_its_table(splitbench: Command) -> None:
    checked = splitbench("check", "quickstart", "--scale", "smoke")
    assert checked.code == 0, checked.err
    assert "18 cells, 0 done, 18 to run" in checked.out
    ran = splitbench("run", "quickstart", "--scale", "smoke")
    assert ran.code == 0, ran.err
    assert "gaussian(sigma=2)" in ran.out
    assert "nopeek(weight=0.5)" in ran.out
    again = splitbench("run", "quickstart", "--scale", "smoke", "--json")
    assert "18 done, 0 to run" in again.err
    rows = json.loads(again.out)
    assert [row["status"] for row in rows] == ["done"] * 18
    for form, mark in (("markdown", "| defense |"), ("latex", r"\toprule"), ("csv", "defense,column"), ("json", "{")):
        made = splitbench("table", "quickstart", "--scale", "smoke", "--format", form)
        assert made.code == 0, made.err
        assert mark in made.out
    entries = json.loads(splitbench("table", "quickstart", "--scale", "smoke", "--json").out)[0]["entries"]
    keys = {row["key"] for row in rows}
    assert all(entry["outcomes"] and set(entry["outcomes"]) <= keys for entry in entries), "a number leads to its run"


def test_one_table_a_scale_and_never_both(splitbench: Command, tiny: tuple[str, ...]) -> None:
    for scale in ("smoke", "desk"):
        assert splitbench("train", *tiny, "--scale", scale).code == 0
    tables = json.loads(splitbench("table", "--json").out)
    assert ["scale smoke" in t["caption"] for t in tables] == [True, False]


@pytest.mark.parametrize("what", ["models", "data", "topologies", "defenses", "attacks", "metrics", "recipes"])
def test_ls_tells_a_line_of_each(splitbench: Command, what: str) -> None:
    said = splitbench("ls", what, "--json")
    assert said.code == 0, said.err
    rows = json.loads(said.out)
    assert rows
    assert all(row["name"] and row["about"] for row in rows)


def test_ls_attacks_tells_what_each_needs(splitbench: Command) -> None:
    rows = {row["name"]: row["needs"] for row in json.loads(splitbench("ls", "attacks", "--json").out)}
    assert rows["black"] == "nothing"
    assert rows["class_mean"] == "labels, auxiliary"


def test_show_model_tells_the_parameters_of_each_party(splitbench: Command) -> None:
    said = splitbench("show", "model", "resnet18", "--cut", "stem", "--classes", "10")
    assert said.code == 0, said.err
    assert "9,536" in said.out
    assert "11,172,106" in said.out


def test_show_tells_everything_about_a_run_a_recipe_and_a_component(splitbench: Command, tiny: tuple[str, ...]) -> None:
    splitbench("train", *tiny)
    run = json.loads(splitbench("show", "run", "latest", "--json").out)
    assert run["recipe"]["model"]["name"] == "lenet5"
    assert set(run["provenance"]["sample_digests"]) == {"private", "auxiliary", "evaluation", "nonmembers", "test"}
    assert {"weights.safetensors", "recipe.yaml", "provenance.json", "samples.safetensors"} <= set(run["files"])
    assert json.loads(splitbench("show", run["run"][:8], "--json").out) == run
    assert "quickstart" in splitbench("show", "recipe", "quickstart").out
    defense = json.loads(splitbench("show", "gaussian", "--json").out)
    assert defense["kind"] == "defense"
    assert defense["settings"]["sigma"]["value"] == 0.5


def test_two_defenses_are_applied_in_the_order_given(splitbench: Command, tiny: tuple[str, ...]) -> None:
    said = splitbench("train", "--defense", "gaussian", "--defense", "nopeek", "--weight", "0.3", "--sigma=0.1", *tiny)
    assert said.code == 0, said.err
    assert "gaussian(sigma=0.1) + nopeek(weight=0.3)" in " ".join(said.out.split())


def test_data_lists_and_verifies(splitbench: Command) -> None:
    rows = {row["name"]: row for row in json.loads(splitbench("data", "--json").out)}
    assert rows["fashion_mnist_mini"]["found"]
    assert "cifar10" in rows
    verified = json.loads(splitbench("data", "verify", "fashion_mnist_mini", "--json").out)
    assert (verified["train"], verified["test"]) == (3000, 600)


def test_doctor_finds_this_machine_sound(splitbench: Command) -> None:
    said = splitbench("doctor", "--json")
    assert said.code == 0, said.out
    assert json.loads(said.out)["sound"]


def test_real_data_by_name(
    splitbench: Command, tiny: tuple[str, ...], shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    said = splitbench("train", "--dataset", "cifar10", "--defense", "gaussian", "--sigma", "0.5", *tiny)
    assert said.code == 0, said.err
    assert "cifar10" in said.out
    assert splitbench("attack", "inversion", "--steps", "3").code == 0


def test_an_attacked_number_stands_beside_its_undefended_twin(splitbench: Command, tiny: tuple[str, ...]) -> None:
    trained = json.loads(splitbench("train", "--defense", "gaussian", "--sigma", "3", *tiny, "--json").out)
    said = splitbench("attack", "inversion", "--run", trained["run"], "--steps", "5")
    assert "(undefended " in said.out
    assert "blind guess" in said.out
    # The twin takes as long again: the number is told before, and the wait only once.
    assert "inversion(steps=5) is done: ssim" in said.err
    assert "is done" not in splitbench("attack", "inversion", "--run", trained["run"], "--steps", "6", "--json").out
    assert "is done" not in splitbench("attack", "inversion", "--run", trained["run"], "--steps", "5").err
    runs = json.loads(splitbench("ls", "runs", "--json").out)
    assert [run["defense"] for run in runs] == ["gaussian(sigma=3)", "none"]


def test_doubling_is_told_in_words_and_as_json(splitbench: Command, tiny: tuple[str, ...]) -> None:
    splitbench("train", *tiny)
    assert "twice the iterations: ssim" in splitbench("attack", "inversion", "--steps", "5", "--double").out
    document = json.loads(splitbench("attack", "inversion", "--steps", "5", "--double", "--json").out)
    assert document["doubled"]["key"] != document["key"]
    assert isinstance(document["doubled"]["same_verdict"], bool)
    assert document["doubled"]["scores"]["ssim"] != document["scores"]["ssim"]


def test_an_attack_that_cannot_be_mounted_is_skipped_with_the_reason(
    splitbench: Command, tiny: tuple[str, ...]
) -> None:
    splitbench("train", "--defense", "gaussian", *tiny)
    said = splitbench("attack", "inversion", "--queries", "0", "--no-architecture")
    assert said.code == 0
    assert "skipped: needs queries=1 or architecture=true" in said.err
    assert len(json.loads(splitbench("ls", "runs", "--json").out)) == 1, "nothing was trained for it"


def test_a_skip_for_want_of_a_capability_says_what_to_add(splitbench: Command, tiny: tuple[str, ...]) -> None:
    splitbench("train", *tiny)
    said = splitbench("attack", "fsha")
    assert said.code == 0
    assert "add --tampers, or in a recipe threat: {tampers: true}" in said.err


def test_a_network_that_did_not_learn_is_said_to_have_not(splitbench: Command, tiny: tuple[str, ...]) -> None:
    said = splitbench("train", *tiny, "--lr", "1e-9")
    assert said.code == 0, said.err
    assert "the network did not learn: accuracy 0." in said.out
    assert "did not learn" not in splitbench("train", *tiny, "--epochs", "12", "--private", "600").out


def test_a_boolean_setting_may_stand_alone(splitbench: Command, tmp_path: Path, tiny: tuple[str, ...]) -> None:
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\nfrom splitbench.core.defense import Defense\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(Defense):\n    strong: bool = False\n    share: float = 0.5\n"
    )
    own = f"{tmp_path / 'own.py'}:Mine"
    said = splitbench("train", "--defense", own, "--strong", *tiny, "--json")
    assert said.code == 0, said.err
    run = json.loads(splitbench("show", "run", json.loads(said.out)["run"], "--json").out)
    assert run["recipe"]["defenses"][0]["settings"] == {"strong": True, "share": 0.5}
    assert splitbench("train", "--defense", own, "--share", *tiny).code == 2


def test_every_field_is_an_option_of_its_own_name_type_and_default(splitbench: Command) -> None:
    import typer

    from splitbench.cli.main import app
    from splitbench.core.threat import ThreatModel
    from splitbench.plan.cells import Counts, Options, Training
    from splitbench.plan.fields import fields_of

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, owners in (("train", (Options, Training, Counts)), ("attack", (ThreatModel,))):
        options = {p.name: p for p in commands[name].params}
        for field in (f for owner in owners for f in fields_of(owner)):
            option = options[field.name]
            assert f"--{field.name.replace('_', '-')}" in option.opts
            assert field.note[1:] in option.help
            assert all(choice in option.help for choice in field.choices)
            if name == "train" and field.plain is not tuple:
                assert option.default == field.default
            else:
                assert option.default is None, "the run decides"
