"""Every folder says what belongs there, and its example works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = [
    *sorted(p.name for p in (ROOT / "splitbench").iterdir() if p.is_dir() and not p.name.startswith(("_", "."))),
    "../recipes",
    "../results",
    "../tests",
]
HEADER = """
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Generator, Tensor, nn

from splitbench.cli._output import Json, StorePath, out, print_json
from splitbench.core.attack import Attack
from splitbench.core.data import Data, DataSet, Modality
from splitbench.core.defense import Defense
from splitbench.core.member import Batch, Client
from splitbench.core.message import Message
from splitbench.core.metric import Metric, Truth
from splitbench.core.model import Model
from splitbench.core.party import SERVER
from splitbench.core.schedule import Program, Receive, Send
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View
from splitbench.data._folders import locate
from splitbench.data._formats import npz
from splitbench.defenses._noise.drawn import normal_like
from splitbench.topologies._programs.in_turn import InTurn

"""


def text(folder: str) -> str:
    return (ROOT / "splitbench" / folder / "README.md").read_text(encoding="utf-8")


def example(folder: str, language: str = "python") -> str:
    found = re.search(rf"```{language}\n(.*?)```", text(folder), flags=re.DOTALL)
    assert found is not None
    return found[1]


def defined(folder: str, name: str) -> type:
    scope: dict[str, type] = {}
    exec(compile(HEADER + example(folder), f"{folder}/README.md", "exec", dont_inherit=True), scope)
    return scope[name]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_a_readme_of_a_few_lines(folder: str) -> None:
    assert 5 <= len(text(folder).splitlines()) <= 50
    assert all(len(line) <= 120 for line in text(folder).splitlines() if "](" not in line)


def test_data(tmp_path: Path) -> None:
    import numpy as np

    arrays = {f"x_{part}": np.zeros((20, 8, 8, 1), np.uint8) for part in ("train", "test")}
    np.savez(tmp_path / "digits.npz", **arrays, **{f"y_{part}": np.arange(20) % 10 for part in ("train", "test")})
    assert defined("data", "Digits")().load((tmp_path,)).classes == 10


def test_models() -> None:
    import torch

    model = defined("models", "TwoLayer")()
    network = model.build((1, 8, 8), 10)
    assert network(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert len(model.split(network, ("conv",)).stages) == 2


def test_topologies_and_attacks() -> None:
    assert defined("topologies", "Vanilla")().cuts == 1
    assert defined("attacks", "MeanOfClass")().goal == "inputs"


def test_defenses() -> None:
    import torch

    z = torch.zeros(2, 3, 4, 4)
    assert defined("defenses", "Gaussian")().sent(z, torch.Generator().manual_seed(0)).std() > 0.3


def test_metrics() -> None:
    import torch

    from splitbench.core.metric import Truth

    x = torch.rand(3, 1, 8, 8)
    assert defined("metrics", "Within")()(x, Truth.of(x)).tolist() == [1, 1, 1]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    defined("cli", "hello")(store=str(tmp_path))
    assert capsys.readouterr().out == "0 rows\n"


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_recipes(tmp_path: Path, scale: str) -> None:
    from splitbench.plan.recipe import Recipe

    path = tmp_path / "asked.yaml"
    path.write_text(example("../recipes", "yaml"))
    assert Recipe.load(path, scale).cells


def test_devices(tmp_path: Path) -> None:
    from splitbench.edge import device

    path = tmp_path / "rpi4_2gb.yaml"
    path.write_text(example("edge", "yaml"))
    assert device.load(str(path)).memory.value == 2e9
