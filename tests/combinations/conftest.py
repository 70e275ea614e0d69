"""Where these tests look for data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def data_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of SPLITBENCH_DATA, or the one beside the project, as for all tests on real data."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    if "SPLITBENCH_DATA" not in os.environ and beside.is_dir():
        monkeypatch.setenv("SPLITBENCH_DATA", str(beside))
