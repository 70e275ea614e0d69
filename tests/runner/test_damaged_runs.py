"""A run whose weights are gone or damaged is trained again, and no good row is lost on the way."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.runner import runfolder
from splitbench.runner.execute import run
from splitbench.runner.prepare import prepare
from splitbench.store.store import Store

from ._small import cells


def deleted(weights: Path) -> None:
    weights.unlink()


def truncated(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:1000])


def flipped(weights: Path) -> None:
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)


Damage = Callable[[Path], None]
every_damage = pytest.mark.parametrize("damage", [deleted, truncated, flipped])


@every_damage
def test_a_damaged_training_is_repeated_and_its_attacks_are_kept(tmp_path: Path, damage: Damage) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["black", "mean_image"])
    first = run(plan, store)
    weights = store.run_folder(plan[0].key) / "weights.safetensors"
    whole = weights.read_bytes()
    damage(weights)
    again = run(plan, store)
    assert [finished.reused for finished in again] == [False, True, True]
    assert [finished.outcome for finished in again[1:]] == [finished.outcome for finished in first[1:]]
    assert weights.read_bytes() == whole
    assert all(runfolder.recovered_file(store, row.run, row.key).is_file() for row in (f.outcome for f in first[1:]))
    assert all(finished.reused for finished in run(plan, store))


@every_damage
def test_a_good_row_of_an_attack_survives_that_its_run_is_damaged(tmp_path: Path, damage: Damage) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["mean_image"])
    done = run(plan, store)[1].outcome
    damage(store.run_folder(plan[0].key) / "weights.safetensors")
    # Not even a metric that it was not scored with may cost the row.
    less = replace(done, scores=tuple(s for s in done.scores if s.metric != "ssim"))
    store.put(less)
    [kept] = run(plan[1:], store)
    assert kept.reused
    assert kept.outcome == less == store.get(done.key)


def test_an_attack_on_other_weights_than_the_trainings_is_repeated(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["black"])
    done = run(plan, store)[1].outcome
    store.put(replace(done, weights="0" * 64))
    again = run(plan, store)
    assert [finished.reused for finished in again] == [True, False]
    assert again[1].outcome.weights == done.weights


def test_reconstructions_that_were_deleted_are_made_again_when_a_metric_needs_them(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["black"])
    done = run(plan, store)[1].outcome
    file = runfolder.recovered_file(store, done.run, done.key)
    file.unlink()
    assert run(plan, store)[1].reused
    store.put(replace(done, scores=tuple(s for s in done.scores if s.metric != "ssim")))
    again = run(plan, store)[1]
    assert not again.reused
    assert again.outcome.scores == done.scores
    assert file.is_file()


def test_a_rerun_loads_no_network_where_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics for texts and tables are missing in every row about images, and are not looked for."""
    store = Store(tmp_path)
    plan = cells(attacks=["black"])
    run(plan, store)
    monkeypatch.setattr(runfolder, "load", lambda *_: pytest.fail("a network was loaded"))
    assert all(finished.reused for finished in run(plan, store))


def test_the_digest_of_weights_is_sha256_and_needs_no_more_than_python_3_10(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.version_info >= (3, 11):
        monkeypatch.delattr(hashlib, "file_digest")
    content = bytes(range(256)) * 10_000
    (tmp_path / "weights.safetensors").write_bytes(content)
    assert runfolder.weights_digest(tmp_path) == hashlib.sha256(content).hexdigest()
    assert runfolder.weights_digest(tmp_path / "nowhere") == ""


def test_a_row_speaks_of_the_weights_in_its_folder(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for finished in run(cells(attacks=["black"]), store):
        weights = store.run_folder(finished.outcome.run) / "weights.safetensors"
        assert finished.outcome.weights == hashlib.sha256(weights.read_bytes()).hexdigest()


@pytest.mark.parametrize("which", ["data", "auxiliary"])
def test_data_that_changed_since_the_plan_is_refused(which: str) -> None:
    [cell] = cells(auxiliary="fashion_mnist_mini")
    assert prepare(cell.run).allocation.public is not None
    changed = replace(cell.run, **{f"{which}_digest": "0" * 64})
    with pytest.raises(SplitbenchError, match=r"'fashion_mnist_mini' is not the one this run was planned with"):
        prepare(changed)


def test_a_transcript_with_mixtures_is_read_back_with_what_it_is_about(tmp_path: Path) -> None:
    own = Path(__file__).parent / "_own_defenses.py"
    plan = cells(topology="parallel", clients=2, record=True, defenses=[f"{own}:CutMix"])
    store = Store(tmp_path)
    finished = run(plan, store)[-1]
    assert finished.outcome.status == "done", finished.outcome.reason
    messages = runfolder.load(store, finished.outcome.run).wire.transcript
    mixed = [m for m in messages if m.kind == "smashed" and str(m.receiver) == "server"]
    assert mixed
    for message in mixed:
        assert message.about is not None
        assert message.about.places is not None
        assert message.about.places.shape == (len(message.tensor), 2, 28, 28)
        assert message.about.shares.sum(1).allclose(message.about.shares.new_ones(len(message.tensor)))
