"""The command `profile`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import Command

SMALL = ("--model", "lenet5", "--cut", "conv2", "--batch", "8")


@pytest.fixture(autouse=True)
def own_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITBENCH_DEVICES", str(tmp_path / "devices"))


def test_it_answers_whether_the_client_fits(splitbench: Command) -> None:
    said = splitbench("profile", "--device", "rpi4", *SMALL, "--defense", "seal", "--omega", "0.5")
    assert said.code == 0, said.err
    for words in ("seal(omega=0.5)", "client layers", "client defense", "server layers", "MACs backward", "optimizer",
                  "per round", "fits rpi4", "thop counts"):  # fmt: skip
        assert words in said.out, words
    tight = splitbench(
        "profile", "--device", "rpi_zero2", "--model", "resnet18", "--cut", "layer4", "--shape", "3x224x224"
    )
    assert "does not fit rpi_zero2" in tight.out


def test_every_format_tells_the_same(splitbench: Command) -> None:
    found = {form: splitbench("profile", *SMALL, "--format", form) for form in ("markdown", "latex", "csv", "json")}
    assert all(said.code == 0 for said in found.values())
    row = json.loads(found["json"].out)
    assert row["layers_macs_forward"] == 8 * (28 * 28 * 25 * 6 + 10 * 10 * 16 * 150)
    assert row["fits"] is True
    assert "| client layers | 2.57 k | 2.86 M |" in found["markdown"].out
    assert r"client layers & 2.57 k & 2.86 M" in found["latex"].out
    assert r"\toprule" in found["latex"].out
    assert "client layers,2.57 k,2.86 M" in found["csv"].out
    assert splitbench("profile", *SMALL, "--json").out == found["json"].out


def test_rows_are_saved_and_pictures_drawn(splitbench: Command, tmp_path: Path) -> None:
    rows, png, svg = (tmp_path / f"p.{end}" for end in ("parquet", "png", "svg"))
    compare = ("--compare", "defense=none,gaussian,seal")
    said = splitbench("profile", *SMALL, *compare, "--save", rows, "--plot", png, "--format", "markdown")
    assert said.code == 0, said.err
    table = pd.read_parquet(rows)
    assert list(table.defense) == ["none", "gaussian(sigma=0.5)", "seal(omega=0.7)"]
    assert (table.memory_peak > 0).all()
    assert all(name in said.out for name in table.defense)
    assert png.read_bytes().startswith(b"\x89PNG")
    splitbench("profile", *SMALL, "--plot", svg)
    first = svg.read_bytes()
    splitbench("profile", *SMALL, "--plot", svg)
    assert svg.read_bytes() == first
    assert b"Roofline" in first or b"<path" in first


def test_a_budget_is_answered_with_choices_or_with_the_limit_that_leaves_none(splitbench: Command) -> None:
    axes = ("--compare", "cut=conv1,conv2", "--compare", "defense=none,gaussian", "--compare", "batch=4,8")
    said = splitbench("profile", *SMALL, *axes, "--budget", "memory=1GB,step=1s,uplink=10Mbit/s")
    assert said.code == 0, said.err
    assert "8 of 8 choices fit" in said.out
    unknown = splitbench("profile", *SMALL, *axes, "--budget", "step=1ns", "--json")
    assert unknown.code == 2
    none = splitbench("profile", *SMALL, *axes, "--budget", "step=1us,memory=1GB")
    assert none.code == 1
    assert "step=1 µs is the tightest limit. The nearest choice is lenet5 cut at" in none.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--device", "rpi44"), "did you mean 'rpi4'?"),
        (("--device", "local"), "--calibrate"),
        (("--model", "lenet6"), "did you mean 'lenet5'?"),
        (("--model", "lenet5", "--cut", "conv9"), "no cut named 'conv9'"),
        (("--defense", "sael"), "did you mean 'seal'?"),
        (("--omega", "0.5"), "no option --omega"),
        (("--defense", "seal", "--omega", "1.5"), "less than or equal to 1"),
        (("--phase", "traning"), "did you mean 'training'?"),
        (("--shape", "3x32"), "expected 3x32x32"),
        (("--shape", "axb"), "expected 3x32x32"),
        (("--shape", "3x32x32", "--dataset", "mnist"), "give one or the other"),
        (("--model", "roberta_small", "--shape", "3x32x32"), "takes texts"),
        (("--batch", "0"), "greater than or equal to 1"),
        (("--format", "pdf"), "no format 'pdf'"),
        (("--compare", "defence=none"), "did you mean 'defense'?"),
        (("--budget", "memory=lots"), "expected an amount such as 2GB"),
        (("--measure",), "which is not rpi4"),
        (("--plot", "x.gif"), "ends with .png or .svg"),
        (("--save", "x.csv"), ".parquet"),
    ],
)
def test_a_wrong_request_is_told_and_exits_with_2(splitbench: Command, arguments: tuple[str, ...], told: str) -> None:
    said = splitbench("profile", *arguments)
    assert said.code == 2, said.err
    assert told in said.err
    assert "Traceback" not in said.err


def test_all_mistakes_are_told_at_once(splitbench: Command) -> None:
    said = splitbench("profile", "--device", "rpi44", "--plot", "x.gif", "--budget", "memory=2XB", "--save", "x.csv")
    assert said.code == 2
    assert all(option in said.err for option in ("--device", "--plot", "--budget memory", "--save"))
    assert "4 mistakes. Nothing was run." in said.err


def test_devices_are_listed(splitbench: Command) -> None:
    said = splitbench("profile", "--device", "list")
    assert said.code == 0
    assert all(name in said.out for name in ("rpi4", "rpi4_2gb", "rpi_zero2", "jetson_orin_nano", "phone", "local"))


@pytest.mark.slow
def test_predictions_stand_beside_measurements(splitbench: Command, tmp_path: Path) -> None:
    local = tmp_path / "devices" / "local.yaml"
    local.parent.mkdir()
    # Not this machine's speeds: what is tested is the way from a request to the table.
    packaged = Path(__file__).parents[2] / "splitbench" / "edge" / "devices" / "laptop.yaml"
    local.write_text(packaged.read_text().replace("name: laptop", "name: local").replace("threads: 4", "threads: 1"))
    said = splitbench("profile", "--device", "local", *SMALL, "--measure", "--json")
    assert said.code == 0, said.err
    [row] = json.loads(said.out)
    assert row["measured"]["forward"] > 0
    assert row["measured"]["resident"] > row["measured"]["before"] > 10**8
    assert row["measured_frugal"]["resident"] <= 1.2 * row["measured"]["resident"]
