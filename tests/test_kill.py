"""Killed at any moment, a recipe finishes after a restart with every row once, equal to an undisturbed run's."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from splitbench.store.store import Store

RECIPE = """
title: Killed on purpose
data: fashion_mnist_mini
model: lenet5
cut: conv1
training: {epochs: 1, batch: 32}
samples: {private: 192, auxiliary: 64, evaluation: 8}
defenses: [none, gaussian]
attacks: [black, mean_image, {inversion: {steps: 8}}]
seeds: [0]
"""
MOMENTS = 20


def start(recipe: Path, store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "splitbench.cli.main", "run", str(recipe), "--store", str(store)]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def rows(store: Path) -> dict[str, Any]:
    """All that must not depend on when, or how often, a cell was begun."""
    outcomes, damaged = Store(store).outcomes()
    assert damaged == []
    found = {}
    for outcome in outcomes:
        row = dict(vars(outcome))
        for name in ("created", "digest"):
            row.pop(name)
        row["costs"] = {k: v for k, v in outcome.costs.items() if k not in ("seconds", "cpu_seconds")}
        found[outcome.key] = row
    assert len(found) == len(outcomes)
    return found


@pytest.mark.slow
def test_a_recipe_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    begun = time.monotonic()
    assert start(recipe, tmp_path / "undisturbed").wait(300) == 0
    length = time.monotonic() - begun
    expected = rows(tmp_path / "undisturbed")
    assert len(expected) == 8
    moments = random.Random(0)
    disturbed = tmp_path / "disturbed"
    for kill in range(MOMENTS):
        # A store that is complete cannot be disturbed: begin another.
        if len(list((disturbed / "outcomes").glob("[!.]*.parquet"))) == len(expected):
            assert rows(disturbed) == expected
            disturbed = tmp_path / f"disturbed{kill}"
        process = start(recipe, disturbed)
        time.sleep(moments.uniform(0.3, 0.9) * length)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        whole = rows(disturbed) if (disturbed / "outcomes").is_dir() else {}
        assert all(expected[key] == row for key, row in whole.items()), "what is there after a kill is right"
    assert start(recipe, disturbed).wait(300) == 0
    assert rows(disturbed) == expected
    for store in (disturbed, tmp_path / "undisturbed"):
        left = [p.name for p in store.rglob(".*") if p.name.count(".") >= 3]
        assert left == [], "unfinished files are swept"


@pytest.mark.slow
def test_two_processes_share_a_store_and_the_work(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE)
    assert start(recipe, tmp_path / "alone").wait(300) == 0
    both = [start(recipe, tmp_path / "shared") for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    assert rows(tmp_path / "shared") == rows(tmp_path / "alone")
