"""What many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real subsets of the papers' data sets, where they are to be had."""
    places = [Path(p) for p in os.environ.get("SPLITBENCH_DATA", "").split(os.pathsep) if p]
    places.append(Path(__file__).parents[2] / "shared" / "data")
    for place in places:
        if (place / "cifar10.npz").is_file():
            return place
    pytest.skip("no real data: set SPLITBENCH_DATA to a folder with cifar10.npz and the others")
