"""What many tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from splitbench.runner.allocator import keep_memory

# Small work on two cores is fastest, and bit for bit repeatable, on one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
keep_memory()  # as the command line does


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real subsets of the papers' data sets, where they are to be had."""
    places = [Path(p) for p in os.environ.get("SPLITBENCH_DATA", "").split(os.pathsep) if p]
    places.append(Path(__file__).parents[2] / "shared" / "data")
    for place in places:
        if (place / "cifar10.npz").is_file():
            return place
    pytest.skip("no real data: set SPLITBENCH_DATA to a folder with cifar10.npz and the others")


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def splitbench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The command line, in this process, with a store of its own."""
    from splitbench.cli.main import main

    monkeypatch.setenv("SPLITBENCH_STORE", str(tmp_path / "runs"))

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["splitbench", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


TINY = ("--model", "lenet5", "--cut", "conv1", "--epochs", "1", "--private", "96", "--auxiliary", "32",
        "--evaluation", "4", "--batch", "32")  # fmt: skip


@pytest.fixture
def tiny() -> tuple[str, ...]:
    """Options of `train` for a run of about a second."""
    return TINY
