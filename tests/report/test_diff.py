"""Two runs or two stores: what was set, measured and seen otherwise."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from splitbench.core.errors import SplitbenchError
from splitbench.report.diff import Diff, diff
from splitbench.store.store import Store
from tests.conftest import Command
from tests.report._rows import Rows, values

STRONG, WEAK = ({"defense": "seal", "settings": {"omega": omega}} for omega in (0.1, 0.9))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    made = Rows(tmp_path / "a")
    for defense, ssim, accuracy in ((STRONG, 0.1, 0.6), (WEAK, 0.5, 0.9)):
        made.train(accuracy, **defense)
        made.attack("fsha", values(ssim, 3), **defense)
        made.attack("fora", values(0.3, 4 if defense is WEAK else 5), **defense)
        made.attack("black", values(0.2, 6), **defense)
    return made


def runs(rows: Rows) -> tuple[str, str]:
    one, other = dict.fromkeys(o.run for o in rows.store.outcomes()[0])
    return one, other


def verdicts(found: Diff) -> dict[tuple[str, str], str]:
    return {(m.what, m.metric): m.verdict for m in found.metrics}


def test_two_runs(rows: Rows) -> None:
    found = diff(*runs(rows), store=rows.store.path)
    assert found.settings == (("defenses[0].settings.omega", 0.1, 0.9),)
    assert verdicts(found) == {
        ("task", "accuracy"): "differs", ("fsha", "ssim"): "differs", ("fora", "ssim"): "not separable",
        ("black", "ssim"): "identical",
    }  # fmt: skip
    fsha = next(m.difference for m in found.metrics if m.what == "fsha")
    assert fsha is not None
    assert fsha.value == pytest.approx(-0.4)


def test_what_one_side_lacks_is_named(rows: Rows) -> None:
    rows.attack("sdar", 0.3, **WEAK)
    rows.attack("fsha", 0.3, status="failed", reason="nan", **STRONG)
    found = diff(*runs(rows), store=rows.store.path)
    assert "only on the right: sdar" in found.notes
    assert verdicts(found)["fsha", "status"] == "failed against done"


def test_images_are_compared_where_both_are_stored(rows: Rows) -> None:
    one, other = runs(rows)
    for run, shift in ((one, 0.0), (other, 0.25)):
        images = np.full((3, 1, 4, 4), 0.5, np.float32)
        images[1] += shift
        key = next(o.key for o in rows.store.outcomes()[0] if o.run == run and o.attack == "fsha")
        folder = rows.store.run_folder(run) / "attacks"
        folder.mkdir(parents=True)
        save_file({"inputs": images}, folder / f"{key}.safetensors")
    [pictures] = diff(one, other, store=rows.store.path).images
    assert (pictures.what, pictures.images, pictures.identical, pictures.at) == ("fsha", 3, 2, 1)
    assert pictures.largest == pytest.approx(0.25)
    assert pictures.mean == pytest.approx(0.25 / 3)


def test_broken_images_do_not_stop_the_rest(rows: Rows) -> None:
    for o in rows.store.outcomes()[0]:
        if o.kind == "attack":
            folder = rows.store.run_folder(o.run) / "attacks"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{o.key}.safetensors").write_bytes(b"broken")
    assert diff(*runs(rows), store=rows.store.path).images == ()


def test_runs_of_two_stores_are_given_with_theirs(rows: Rows, tmp_path: Path) -> None:
    shutil.copytree(rows.store.path, tmp_path / "b")
    run = runs(rows)[0]
    found = diff(f"{tmp_path / 'a'}:{run}", f"{tmp_path / 'b'}:{run}")
    assert not found.settings
    assert set(verdicts(found).values()) == {"identical"}


def test_two_stores_are_compared_row_by_row(rows: Rows, tmp_path: Path) -> None:
    shutil.copytree(rows.store.path, tmp_path / "b")
    other = Store(tmp_path / "b")
    outcomes, _ = other.outcomes()
    changed = next(o for o in outcomes if o.attack == "fsha" and "0_1" in o.key)
    score = replace(changed.scores[0], values=values(0.4, 3), value=0.4)
    other.put(replace(changed, scores=(score,), provenance={"torch": "3"}))
    gone = next(o for o in outcomes if o.attack == "black")
    other.outcome_file(gone.key).unlink()
    found = diff(str(rows.store.path), str(other.path))
    assert found.settings == (("provenance.torch", None, "3"),)
    [metric] = found.metrics
    assert "fsha on cifar10" in metric.what
    assert metric.verdict == "differs"
    assert any(note.startswith("1 only on the left: black") for note in found.notes)
    assert "6 of 7 rows measure exactly the same" in found.notes


def test_rows_of_two_versions_are_matched(rows: Rows, tmp_path: Path) -> None:
    other = Store(tmp_path / "b")
    for o in rows.store.outcomes()[0]:
        if o.kind == "attack":
            cell = {**o.cell, "attack": {**o.cell["attack"], "version": 2}}
            other.put(replace(o, key=f"new{o.key}", cell=cell))
    found = diff(str(rows.store.path), str(other.path))
    assert found.settings == (("attack.version", 1, 2),)
    assert "0 rows have the same key, 6 differ in versions alone" in found.notes


def test_data_that_differ_are_two_samples(rows: Rows) -> None:
    rows.train(0.5, dataset="mnist")
    rows.attack("fsha", values(0.5, 9), dataset="mnist", samples=tuple(range(24)))
    rows.attack("fsha", values(0.1, 8), dataset="mnist", samples=tuple(range(500, 524)), **WEAK)
    found = diff("mnist-none", "mnist-seal", store=rows.store.path)
    assert verdicts(found)["fsha", "ssim"] == "differs"


def test_bad_questions(rows: Rows, tmp_path: Path, splitbench: Command) -> None:
    run = runs(rows)[0]
    with pytest.raises(SplitbenchError, match=r"is a store and .* is not"):
        diff(str(rows.store.path), run, store=rows.store.path)
    with pytest.raises(SplitbenchError, match="no run 'nothing'"):
        diff("nothing", run, store=rows.store.path)
    with pytest.raises(SplitbenchError, match="is ambiguous"):
        diff("cifar10", run, store=rows.store.path)
    with pytest.raises(SplitbenchError, match="no rows in"):
        diff(run, run, store=tmp_path / "empty")
    (rows.store.path / "outcomes" / "torn.parquet").write_bytes(b"PAR1")
    said = splitbench("diff", *runs(rows), "--store", rows.store.path)
    assert said.code == 0
    assert "torn.parquet cannot be read" in said.err
    assert (
        json.loads(splitbench("diff", *runs(rows), "--store", rows.store.path, "--json").out)[0]["about"] == "settings"
    )
