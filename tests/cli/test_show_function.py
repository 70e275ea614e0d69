"""`show function`: its numbers against slower ones, its picture, and what it refuses."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.fft import dctn

from splitbench.defenses.seal import SEAL
from splitbench.methods.seal.function import BAND, OMEGAS, SIZES, catalogue, check, compaction, function_at
from splitbench.methods.seal.periodic import CATALOGUE, basis, named
from splitbench.methods.seal.zigzag import dropped
from splitbench.runner.feature_maps import untrained
from tests.conftest import Command


@pytest.fixture(scope="module")
def maps() -> torch.Tensor:
    return untrained().at(14)


def test_the_cosine_by_hand() -> None:
    """Its nodes are multiples of a quarter period over N; row k of C has the length sqrt(N/2), the first sqrt(N)."""
    for size in SIZES:
        row = check(named("cos"), size)
        zeros = sum((k * (2 * n + 1)) % (2 * size) == size for k in range(size) for n in range(size))
        assert row.zero_nodes == zeros
        assert row.published == (zeros == 0)
        assert abs(row.integral) < 1e-12
        assert row.first == 1
        assert math.isclose(row.smallest_row, math.sqrt(size / 2))
        assert math.isclose(row.condition, 1, abs_tol=1e-9)
        assert row.error is not None
        assert row.error < 1e-12
        assert row.valid
    assert [check(named("cos"), size).zero_nodes for size in SIZES] == [6, 0, 0]


def test_neither_condition_of_the_paper_decides() -> None:
    sawtooth, cosine = check(named("sawtooth"), 16), check(named("cos"), 14)
    assert sawtooth.published
    assert not sawtooth.valid
    assert sawtooth.error is None
    assert cosine.valid
    assert not cosine.published


@pytest.mark.parametrize(
    ("function", "over"), [("cos", "rows"), ("cos(x)+0.9cos(2x)", "columns"), ("triangle", "rows")]
)
def test_as_many_are_kept_as_seal_does_not_drop(maps: torch.Tensor, function: str, over: Any) -> None:
    q = basis(named(function), 14, over)
    spectrum = q @ maps @ q.T
    found = compaction(named(function), maps, over)
    for omega in OMEGAS:
        counts = np.sort((~dropped(spectrum, omega)).sum((-2, -1)).numpy())
        at = [math.ceil(share * len(counts)) - 1 for share in (0.5, *BAND)]
        assert found.kept[omega] == tuple(counts[at])


def test_the_curve_of_the_cosine_is_that_of_the_dct(maps: torch.Tensor) -> None:
    found = compaction(named("cos"), maps)
    energy = dctn(maps.numpy(), axes=(1, 2), norm="ortho") ** 2
    first = energy[:, 0, 0] / energy.sum((1, 2))
    three = (energy[:, 0, 0] + energy[:, 0, 1] + energy[:, 1, 0]) / energy.sum((1, 2))
    assert math.isclose(found.median[0], np.median(first))
    [at] = np.flatnonzero(np.isclose(found.shares, 3 / 196))
    assert math.isclose(found.median[at], np.median(three))
    assert math.isclose(found.low[at], np.quantile(three, 0.05))
    assert math.isclose(found.high[-1], 1)
    assert bool((np.diff(found.median) >= 0).all())


def test_a_map_of_zeros_is_kept_as_seal_keeps_it() -> None:
    zeros = torch.zeros(3, 8, 8, dtype=torch.float64)
    assert compaction(named("cos"), zeros).kept[0.7] == (1, 1, 1)
    assert int((~dropped(zeros, 0.7)).sum()) == 3


@pytest.mark.parametrize("size", [2, 14, 16, 24])
def test_there_are_feature_maps_of_every_size(size: int) -> None:
    found = untrained().at(size)
    assert found.shape[1:] == (size, size)
    assert found.dtype == torch.float64
    # Batch norm was calibrated on other images of the same kind.
    assert abs(float(found.mean())) < 0.2
    assert 0.7 < float(found.std()) < 1.3
    torch.testing.assert_close(found, untrained().at(size), rtol=0, atol=0)


def test_a_secret_function_is_the_one_that_training_uses(splitbench: Command) -> None:
    said = splitbench("show", "function", "secret", "--key", 5, "--size", "14,16", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert told["key"] == 5
    for row in told["sizes"]:
        assert row["function"] == SEAL(key=5).function_of(row["size"], row["size"]).name


def test_without_a_key_one_is_drawn_and_told(splitbench: Command) -> None:
    said = splitbench("show", "function", "secret", "--size", 14)
    assert said.code == 0, said.err
    found = re.search(r"splitbench train --defense seal --key (\d+) --over rows", said.out)
    assert found
    assert function_at("secret", 14, int(found[1])).name in said.out
    again = json.loads(splitbench("show", "function", "secret", "--size", 14, "--json").out)
    assert again["key"] != int(found[1])


def test_what_is_printed(splitbench: Command) -> None:
    said = splitbench("show", "function", "cos(x)+0.9cos(2x)", "--size", 14, "--size=16", "--over", "columns")
    assert said.code == 0, said.err
    for words in (
        "0 of 196",
        "0 of 256",
        "7.85",
        "valid",
        "DCT",
        "omega 0.7",
        "over columns",
        "untrained resnet18",
    ):
        assert words in said.out
    assert "neither sufficient nor necessary" in said.out
    assert "refused" not in said.out


def test_a_refused_function_is_told_in_full_and_ends_with_one(splitbench: Command) -> None:
    said = splitbench("show", "function", "sawtooth", "--size", "16")
    assert said.code == 1
    assert "refused at N = 16: its rows have rank 15 of 16" in said.out
    assert "hold" in said.out
    told = splitbench("show", "function", "sin", "--size", "14", "--json")
    assert told.code == 1
    [row] = json.loads(told.out)["sizes"]
    assert row["kept"] is None
    assert row["kept_dct"]["0.7"]["median"] > 1
    assert "f(0) is 0" in row["problems"][0]


def test_the_catalogue(splitbench: Command) -> None:
    said = splitbench("show", "function")
    assert said.code == 0, said.err
    for name in CATALOGUE:
        assert name in said.out
    for size in SIZES:
        assert f"N = {size}" in said.out
    told = json.loads(splitbench("show", "function", "--json").out)
    assert {name for name, rows in told.items() if all(row["valid"] for row in rows)} == {
        "cos", "triangle", "square", "exp_cos",
    }  # fmt: skip
    assert set(told) == set(catalogue((14,)))


@pytest.mark.parametrize("function", ["secret", "sawtooth"])
def test_the_picture_is_a_picture(splitbench: Command, tmp_path: Path, function: str) -> None:
    said = splitbench("show", "function", function, "--size", 14, "--picture", tmp_path / "f.png")
    assert said.code == (1 if function == "sawtooth" else 0), said.err
    assert f"picture: {tmp_path / 'f.png'}" in said.out
    drawn = (tmp_path / "f.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", drawn[16:24])
    assert width > 1800
    assert height > 600


def test_an_svg_is_the_same_each_time(splitbench: Command, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        assert splitbench("show", "function", "cos(x+0.8)", "--size", 14, "--picture", tmp_path / name).code == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()[:1000]
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_feature_maps_of_a_run(splitbench: Command, tiny: tuple[str, ...]) -> None:
    assert splitbench("train", *tiny).code == 0
    said = splitbench("show", "function", "triangle", "--run", "latest", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert "lenet5 cut at conv1" in told["maps"]
    [row] = told["sizes"]
    size = row["size"]
    other = splitbench("show", "function", "triangle", "--run", "latest", "--size", size + 1)
    assert other.code == 2
    assert f"are {size} x {size}: say --size {size}" in other.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("cosine", ["no function named 'cosine'", "did you mean 'cos'"]),
        ("secert", ["no function named 'secert'", "did you mean 'secret'"]),
        ("triangel", ["did you mean 'triangle'"]),
        ("cos(x", ["no periodic function", "a sum such as"]),
        ("cos --size 0", ["--size", "from 2 to 512", "got '0'"]),
        ("cos --size 1", ["--size", "got '1'"]),
        ("cos --size 14,many", ["--size", "got 'many'"]),
        ("cos --size 14 --size=-3", ["--size", "got '-3'"]),
        ("cos --size 9999", ["--size", "got '9999'"]),
        ("cos --over row", ["--over", "'rows' or 'columns'", "'row'"]),
        ("cos --key 3", ["--key", "is for the function 'secret'"]),
        ("secret --key=-3", ["--key", "greater than or equal to 0"]),
        ("secret --key mine", ["--key", "valid integer"]),
        ("cos --run zzzz", ["--run", "no runs in"]),
        ("cos --picture nowhere/f.png", ["--picture", "no folder 'nowhere'"]),
        ("cos --picture f.gif", ["--picture", "ends with .png or .svg", "'f.gif'"]),
        ("cos --sise 14", ["no option --sise", "did you mean '--size'"]),
        ("cos --omega 0.7", ["no option --omega"]),
        ("--size 14", ["--size applies to one function", "show function cos"]),
        ("csine --size 0 --over row --picture f.gif", ["function", "--size", "--over", "--picture", "4 mistakes"]),
    ],
)
def test_mistakes_are_told_before_anything_is_computed(
    splitbench: Command, monkeypatch: pytest.MonkeyPatch, arguments: str, words: list[str]
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("something was computed")

    for name in ("check", "compaction", "catalogue"):
        monkeypatch.setattr(f"splitbench.methods.seal.function.{name}", never)
    for name in ("untrained", "of_run"):
        monkeypatch.setattr(f"splitbench.runner.feature_maps.{name}", never)
    said = splitbench("show", "function", *arguments.split())
    assert said.code == 2, said
    assert said.out == ""
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err


def test_an_unknown_run_among_others(splitbench: Command, tmp_path: Path) -> None:
    (tmp_path / "runs" / "trained" / "abc1").mkdir(parents=True)
    said = splitbench("show", "function", "cos", "--run", "zzzz")
    assert said.code == 2
    assert "no run 'zzzz'" in said.err


def test_settings_of_the_same_names_stay_those_of_components(splitbench: Command) -> None:
    told = json.loads(splitbench("show", "defense", "seal", "--key", 3, "--over", "columns", "--json").out)
    assert told["settings"]["key"]["value"] == 3
    assert told["settings"]["over"]["value"] == "columns"
    sized = json.loads(splitbench("show", "data", "celeba", "--size", 32, "--json").out)
    assert sized["settings"]["size"]["value"] == 32
