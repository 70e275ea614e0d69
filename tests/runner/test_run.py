"""Whatever becomes of a cell, it leaves a row; the same seed gives the same bytes; a rerun goes on."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from splitbench.core.errors import SplitbenchError
from splitbench.runner import runfolder
from splitbench.runner.execute import run
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

from ._small import cells


def comparable(outcome: Outcome) -> dict[str, Any]:
    """All of a row that must not depend on when it was made."""
    row = dict(vars(outcome))
    row.pop("created")
    row["costs"] = {k: v for k, v in outcome.costs.items() if not k.endswith("seconds")}
    return row


@pytest.mark.parametrize("topology", ["standalone", "vanilla", "u_shaped", "parallel", "splitfed"])
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, topology: str) -> None:
    changes = {"topology": topology, "clients": 3, "defenses": ["gaussian"], "attacks": ["mean_image"]}
    rows = []
    for place in ("one", "two"):
        store = Store(tmp_path / place)
        rows.append([comparable(f.outcome) for f in run(cells(**changes), store)])
    assert rows[0] == rows[1]
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one" / "trained").rglob("*") if p.is_file()}
    assert files
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    store = Store(tmp_path)
    zero, one = run(cells(seeds=[0, 1]), store)
    left, right = (load_file(store.run_folder(f.cell.key) / "weights.safetensors") for f in (zero, one))
    assert left.keys() == right.keys()
    assert not torch.equal(left["server/0/conv2.weight"], right["server/0/conv2.weight"])


def test_every_defense_of_a_seed_is_given_the_same_samples(tmp_path: Path) -> None:
    finished = run(cells(defenses=["none", "gaussian"]), Store(tmp_path))
    digests = [f.outcome.provenance["sample_digests"] for f in finished]
    assert digests[0] == digests[1]
    assert set(digests[0]) == {"private", "auxiliary", "evaluation", "nonmembers", "test"}


def test_a_rerun_takes_what_is_done_from_the_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["black", "mean_image"])
    first = run(plan, store)
    assert not any(f.reused for f in first)
    again = run(plan, store)
    assert all(f.reused for f in again)
    assert [f.outcome for f in again] == [f.outcome for f in first]


def test_a_deleted_run_folder_is_made_again(tmp_path: Path) -> None:
    import shutil

    store = Store(tmp_path)
    plan = cells(attacks=["black"])
    run(plan, store)
    shutil.rmtree(store.run_folder(plan[0].key))
    again = run(plan, store)
    assert [f.outcome.status for f in again] == ["done", "done"]
    assert store.runs() == [plan[0].key]


def test_a_loss_that_is_not_finite_fails_the_cell_and_the_rest_goes_on(tmp_path: Path) -> None:
    plan = cells(
        defenses=["none"],
        attacks=["mean_image"],
        cases=[{"training": {"lr": 1e18, "optimizer": "sgd", "epochs": 3}}, {}],
    )
    rows = [f.outcome for f in run(plan, Store(tmp_path))]
    assert [row.status for row in rows] == ["failed", "skipped", "done", "done"]
    assert "loss became nan" in rows[0].reason
    assert "epoch" in rows[0].reason
    assert rows[1].reason.startswith("its training failed: the loss became nan")


def test_a_bug_in_a_component_becomes_a_row_with_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from splitbench.attacks.black import Black

    def broken(self: Black, view: object, generator: object) -> None:
        raise ZeroDivisionError("by design")

    monkeypatch.setattr(Black, "run", broken)
    rows = [f.outcome for f in run(cells(attacks=["black", "mean_image"]), Store(tmp_path))]
    assert [row.status for row in rows] == ["done", "failed", "done"]
    assert rows[1].reason == "ZeroDivisionError: by design"


@pytest.mark.parametrize(
    ("guess", "reason"),
    [(torch.zeros(4, 1, 27, 28), "returned inputs of shape"), (torch.full((4, 1, 28, 28), float("nan")), "not finite")],
)
def test_nonsense_from_an_attack_is_a_failure_not_a_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guess: torch.Tensor, reason: str
) -> None:
    from splitbench.attacks.black import Black
    from splitbench.core.view import Recovered

    monkeypatch.setattr(Black, "run", lambda *_: Recovered(guess))
    row = run(cells(attacks=["black"]), Store(tmp_path))[1].outcome
    assert row.status == "failed"
    assert reason in row.reason
    assert row.scores == ()


def test_an_unmet_need_is_a_skipped_row_with_the_sentence(tmp_path: Path) -> None:
    plan = cells(attacks=["mean_image"], threat={"auxiliary": 0})
    row = run(plan, Store(tmp_path))[1].outcome
    assert row.status == "skipped"
    assert row.reason == (
        "needs auxiliary=1 but the threat model grants auxiliary=0; "
        "add --auxiliary 1, or in a recipe threat: {auxiliary: 1}"
    )


def test_nothing_can_be_attacked_where_nothing_crosses(tmp_path: Path) -> None:
    row = run(cells(topology="standalone", attacks=["mean_image"]), Store(tmp_path))[1].outcome
    assert (row.status, row.reason) == ("skipped", "nothing crosses the wire in the topology 'standalone'")


def test_a_metric_added_later_is_scored_from_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["mean_image"])
    run(plan, store)
    module = importlib.import_module("splitbench.metrics.ssim")
    monkeypatch.setattr(module.SSIM if hasattr(module, "SSIM") else module.Ssim, "version", "next")
    finished = run(plan, store)[1]
    assert finished.reused
    score = finished.outcome.score("ssim")
    assert score is not None
    assert score.version == "next"
    assert store.get(finished.cell.key) == finished.outcome


def test_a_damaged_checkpoint_is_named_and_nothing_else_is_lost(tmp_path: Path) -> None:
    store = Store(tmp_path)
    plan = cells(attacks=["black", "mean_image"])
    run(plan[:2], store)
    weights = store.run_folder(plan[0].key) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(SplitbenchError, match=r"weights\.safetensors cannot be read"):
        runfolder.load(store, plan[0].key)
    row = run(plan[2:], store)[0].outcome
    assert row.status == "failed"
    assert "weights.safetensors" in row.reason
    assert store.get(plan[1].key) is not None


def test_a_transcript_is_kept_on_request_and_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    [finished] = run(cells(record=True), store)
    trained = runfolder.load(store, finished.cell.key)
    kinds = [message.kind for message in trained.wire.transcript]
    assert kinds == ["smashed", "label", "gradient"] * 3
    assert sum(m.tensor.nbytes for m in trained.wire.transcript if m.sender.role == "client") == int(
        finished.outcome.costs["bytes_up"]
    )
    [silent] = run(cells(), store)
    assert not (store.run_folder(silent.cell.key) / "transcript.safetensors").exists()


def test_the_attacks_on_a_run_wait_for_whoever_trains_it(tmp_path: Path) -> None:
    plan = cells(attacks=["mean_image", "black"])
    store = Store(tmp_path).open_for_writing()
    held, release = threading.Event(), threading.Timer(1.0, lambda: done.set())
    done = threading.Event()

    def elsewhere() -> None:
        with Store(tmp_path).claim(plan[0].key) as mine:
            assert mine
            held.set()
            done.wait(30)

    holder = threading.Thread(target=elsewhere)
    holder.start()
    assert held.wait(30)
    release.start()
    assert [finished.outcome.status for finished in run(plan, store)] == ["done"] * 3
    holder.join()
