"""`evaluate` ends with the worst case: the most any attack that looks leaked of each image, and which one did."""

from __future__ import annotations

import json

import numpy as np

from splitbench.store.store import Store
from tests.conftest import Command


def test_the_worst_case_comes_last_with_who_won(splitbench: Command, tiny: tuple[str, ...]) -> None:
    assert splitbench("train", "--defense", "gaussian", "--sigma", "0.5", *tiny).code == 0
    assert splitbench("attack", "oracle_decoder", "--steps", "3").code == 0
    assert splitbench("attack", "inversion", "--steps", "3").code == 0
    alone = splitbench("evaluate")
    assert alone.code == 0, alone.err
    assert "worst case" not in alone.out
    assert json.loads(splitbench("evaluate", "--json").out)["worst_case"] == {}
    assert splitbench("attack", "inversion", "--steps", "3", "--knowledge", "exact").code == 0
    said = splitbench("evaluate")
    assert said.code == 0, said.err
    last = said.out.strip().splitlines()[-1]
    assert last.startswith("worst case  ssim ")
    assert "over 4 images, won by inversion(steps=3) on " in last
    assert "inversion(steps=3) · exact on " in last

    found = json.loads(splitbench("evaluate", "--json").out)["worst_case"]["inputs"]
    assert sum(found["won"].values()) == found["n"] == 4
    assert found["left_out"] == []
    rows = [Store().get(key) for key in found["outcomes"]]
    assert {row.adversary for row in rows if row} == {"inversion(steps=3)", "inversion(steps=3) · exact"}
    most = np.max([row.score("ssim").values for row in rows], axis=0)  # type: ignore[union-attr]
    assert abs(found["value"] - most.mean()) < 1e-12


def test_every_floor_is_mounted_and_none_other(splitbench: Command, tiny: tuple[str, ...]) -> None:
    splitbench("train", *tiny)
    rows = json.loads(splitbench("evaluate", "--json").out)["rows"]
    assert {row["what"] for row in rows} == {"task", "black", "mean_image", "class_mean", "nearest_auxiliary"}
