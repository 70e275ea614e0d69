"""Each wrong request gets one clear message, exit code 2, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Command, Said


def refused(said: Said, store: Path, *words: str) -> None:
    assert said.code == 2, said
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err
    assert not list(store.rglob("*.parquet")), "nothing was to be written"
    assert not list(store.glob("trained/*")), "nothing was to be written"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


VIT = "--model vit_tiny --depth 1 --cut block1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train --defense gausian", ["no defense named 'gausian'", "did you mean 'gaussian'"]),
        ("train --model resnet_18", ["no model named 'resnet_18'", "did you mean 'resnet18'"]),
        ("train --dataset cifar_10", ["no data set named 'cifar_10'", "did you mean 'cifar10'"]),
        ("train --topology vanila", ["no topology named 'vanila'", "did you mean 'vanilla'"]),
        ("train --defense gaussian --sgima 1", ["no option --sgima", "did you mean '--sigma'"]),
        ("train --epoch 1", ["no option --epoch", "did you mean '--epochs'"]),
        ("train --defense gaussian --sigma=-1", ["sigma", "greater than or equal to 0", "-1"]),
        ("train --defense gaussian --sigma much", ["sigma", "valid number", "'much'"]),
        ("train --epochs 0", ["training.epochs", "greater than or equal to 1"]),
        ("train --epochs many", ["--epochs", "valid integer"]),
        ("train --optimizer adm", ["training.optimizer", "'adam', 'adamw' or 'sgd'"]),
        ("train --cut steam", ["no cut named 'steam'", "did you mean 'stem'"]),
        ("train --private 99999", ["asked for 99999 private samples"]),
        ("train --evaluation 99999", ["asked for 99999 evaluation samples"]),
        ("train --clients 5 --protected 6", ["6 of 5 clients"]),
        ("train --partition skewed", ["partition", "'iid' or 'dirichlet'"]),
        ("train --model nowhere.py:Net", ["no file 'nowhere.py'"]),
        ("run quikstart", ["no recipe 'quikstart'", "did you mean 'quickstart'"]),
        ("run quickstart --scale dsek", ["no scale named 'dsek'", "did you mean 'desk'"]),
        ("check nowhere.yaml", ["no recipe 'nowhere.yaml'"]),
        ("attack inversion", ["no runs in"]),
        ("evaluate", ["no runs in"]),
        ("table", ["nothing to show"]),
        ("table quickstart", ["no results of 'quickstart'", "splitbench run quickstart"]),
        ("table --format latx", ["no format 'latx'", "did you mean 'latex'"]),
        ("table --rows defence", ["'defence'", "did you mean 'defense'"]),
        ("table --where dataset", ["--where takes key=value"]),
        ("ls atacks", ["'atacks'", "did you mean 'attacks'"]),
        ("show gausian", ["nothing called 'gausian'", "did you mean 'gaussian'"]),
        ("show modle resnet18", ["cannot show a 'modle'", "did you mean 'model'"]),
        ("show model resnet18 --shape 3by32", ["--shape takes whole numbers"]),
        ("data fetch cifar_10", ["no data set named 'cifar_10'", "did you mean 'cifar10'"]),
        ("frobnicate", ["frobnicate"]),
        ("train --lr", ["--lr needs a value, such as --lr 0.001"]),
        ("train --lr --epochs 3", ["--lr needs a value"]),
        ("train --epochs 3 --dataset", ["--dataset needs a value, such as --dataset fashion_mnist_mini"]),
        ("train --defense gaussian --sigma", ["--sigma needs a value (float >= 0)"]),
        ("train --defense gaussian --sigma --epochs 3", ["--sigma needs a value"]),
        ("attack inversion --queries", ["--queries needs a value"]),
        ("attack inversion --steps --run latest", ["--steps needs a value"]),
        ("show function cos --size", ["--size needs a value"]),
        ("attack unspilt", ["did you mean 'unsplit'", "no runs in", "2 mistakes"]),
        ("attack unspilt --knowledge som", ["did you mean 'unsplit'", "threat.knowledge", "no runs in", "3 mistakes"]),
        ("attack unspilt --steps 3", ["did you mean 'unsplit'"]),
        ("train --device cda", ["no device named 'cda'", "did you mean 'cuda'"]),
        ("train --device cuda:7", ["CUDA device here"]),
        ("run quickstart --scale smoke --device gpus", ["no device named 'gpus'"]),
        ("train --precision fp8", ["training.precision", "'float32' or 'bf16'"]),
        ("train --augment flop", ["training.augment", "'flip' or 'crop'"]),
        ("train --pretrain mask", ["training.pretrain", "'supervised' or 'masked'"]),
        ("train --defense patch_shuffle", ["patch_shuffle shuffles tokens", "vit_tiny, t2t_vit"]),
        ("train --defense batch_shuffle --k 1.2", ["batch_shuffle.k", "less than 1, got 1.2"]),
        ("train --defense batch_shuffle --k 0", ["batch_shuffle.k", "greater than 0, got 0"]),
        (f"train --defense batch_shuffle {VIT} --patch 7 --batch 1", ["training.batch", "mixes the images of a batch"]),
        (f"train --defense spectral_shuffle {VIT} --patch 9", ["patches of 9 do not tile 28 x 28 pixels"]),
        (f"train --defense spectral_shuffle {VIT} --patch 7 --reading R2", ["need a width of 147, the model has 192"]),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(
    splitbench: Command, store: Path, arguments: str, words: list[str]
) -> None:
    refused(splitbench(*arguments.split()), store, *words)


def test_several_mistakes_are_told_together(splitbench: Command, store: Path) -> None:
    said = splitbench("train", "--defense", "gausian", "--model", "resnet_18", "--epochs", "0", "--clients", "0")
    refused(said, store, "gausian", "resnet_18", "epochs", "clients", "4 mistakes. Nothing was run.")


def test_a_missing_data_file_says_where_was_looked_and_what_to_do(
    splitbench: Command, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SPLITBENCH_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said = splitbench("train", "--dataset", "cifar10")
    refused(said, store, "cifar10.npz", str(tmp_path / "empty"), "splitbench data fetch cifar10", "SPLITBENCH_DATA")


def images(path: Path, **changes: np.ndarray) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (80, 28, 28, 1), dtype=np.uint8),
        "y_train": np.arange(80) % 4,
        "x_test": rng.integers(0, 256, (20, 28, 28, 1), dtype=np.uint8),
        "y_test": np.arange(20) % 4,
        **changes,
    }
    np.savez(path, **arrays)
    return path


SMALL = ("--model", "lenet5", "--cut", "conv1", "--auxiliary", "8", "--evaluation", "4", "--epochs", "1")


def test_own_data_works_by_path(splitbench: Command, tmp_path: Path) -> None:
    said = splitbench("train", "--dataset", images(tmp_path / "own.npz"), *SMALL)
    assert said.code == 0, said.err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x_train": np.zeros((80, 28, 28), np.uint8)}, ["x_train"]),
        ({"x_train": np.zeros((80, 28, 28, 1), np.float32)}, ["x_train", "uint8"]),
        ({"x_test": np.zeros((20, 32, 32, 1), np.uint8)}, ["x_test"]),
        ({"x_train": np.zeros((0, 28, 28, 1), np.uint8), "y_train": np.zeros(0, int)}, ["x_train"]),
        ({"y_train": np.arange(79) % 4}, ["y_train", "79", "80"]),
        ({"y_train": np.arange(80) % 4 - 1}, ["y_train", "-1"]),
        ({"y_test": np.full(20, 4)}, ["y_test", "4"]),
        ({"y_train": np.full(80, np.nan)}, ["y_train"]),
    ],
)
def test_wrong_arrays_are_named(
    splitbench: Command, store: Path, tmp_path: Path, changes: dict[str, np.ndarray], words: list[str]
) -> None:
    said = splitbench("train", "--dataset", images(tmp_path / "own.npz", **changes), *SMALL)
    refused(said, store, "own.npz", *words)


def test_a_truncated_npz_is_named(splitbench: Command, store: Path, tmp_path: Path) -> None:
    path = images(tmp_path / "own.npz")
    path.write_bytes(path.read_bytes()[:5000])
    refused(splitbench("train", "--dataset", path, *SMALL), store, "own.npz")


def test_a_missing_npz_is_named(splitbench: Command, store: Path, tmp_path: Path) -> None:
    refused(splitbench("train", "--dataset", tmp_path / "none.npz", *SMALL), store, "none.npz")


def test_images_too_small_for_the_network_are_refused_before_training(
    splitbench: Command, store: Path, tmp_path: Path
) -> None:
    small = {"x_train": np.zeros((80, 3, 3, 1), np.uint8), "x_test": np.ones((20, 3, 3, 1), np.uint8)}
    said = splitbench("train", "--dataset", images(tmp_path / "own.npz", **small), *SMALL)
    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert not list(store.rglob("*.parquet"))


def test_an_unknown_and_an_ambiguous_run(splitbench: Command, tiny: tuple[str, ...], store: Path) -> None:
    for seed in range(3):
        assert splitbench("train", *tiny, "--seed", seed).code == 0
    rows = sorted(store.rglob("*.parquet"))
    unknown = splitbench("attack", "black", "--run", "zzzz")
    assert unknown.code == 2
    assert "no run 'zzzz'" in unknown.err
    (store / "trained" / "abc1").mkdir()
    (store / "trained" / "abc2").mkdir()
    ambiguous = splitbench("evaluate", "--run", "abc")
    assert ambiguous.code == 2
    assert "ambiguous: abc1, abc2" in ambiguous.err
    assert sorted(store.rglob("*.parquet")) == rows


@pytest.mark.parametrize("command", ["train", "run quickstart --scale smoke"])
def test_a_store_that_cannot_be_written(
    splitbench: Command, tiny: tuple[str, ...], tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    words = command.split()
    said = splitbench(*words, *(tiny if command == "train" else ()), "--store", tmp_path / "file" / "runs")
    assert said.code == 2, said
    assert "cannot write to the store" in said.err
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_recipe_with_five_mistakes(splitbench: Command, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "five.yaml"
    path.write_text(
        "data: fashion_mnist_mini\nmodel: resnet81\ntraining: {epochs: -1, lerning: 1}\n"
        "defenses:\n  - {gaussian: {sgima: 1}}\nattacks: [inversoin]\n"
    )
    said = splitbench("run", path)
    refused(said, store, "five.yaml", "(line 2)", "(line 3)", "(line 5)", "(line 6)", "5 mistakes. Nothing was run.")
    assert splitbench("check", path).err == said.err
