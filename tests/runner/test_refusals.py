"""Attacks that cannot be mounted are skipped with a sentence; what makes no difference makes no other run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import splitbench as sb
from splitbench.core.threat import ThreatModel
from splitbench.plan.cells import Cell
from splitbench.runner.adversary import refusal
from splitbench.runner.execute import run
from splitbench.runner.prepare import prepare
from splitbench.store.store import Store

from ._small import SMALL, cells

ATTACKS = Path(__file__).parent / "_own_attacks.py"
DEFENSES = Path(__file__).parent / "_own_defenses.py"


def refused(cell: Cell) -> str | None:
    return refusal(cell, prepare(cell.run))


def test_there_is_no_mixer_where_nothing_is_mixed(tmp_path: Path) -> None:
    plan = cells(attacks=[f"{ATTACKS}:Glance"], threat={"party": "mixer"})
    row = run(plan, Store(tmp_path))[1].outcome
    assert (row.status, row.reason) == ("skipped", "there is no mixer in this run; there is client0, server")


def test_a_mixer_attacks_where_there_is_one(tmp_path: Path) -> None:
    plan = cells(
        topology="parallel", clients=2, defenses=[f"{DEFENSES}:Mixup"], attacks=[f"{ATTACKS}:Glance"],
        threat={"party": "mixer"},
    )  # fmt: skip
    rows = {finished.outcome.defense: finished.outcome for finished in run(plan, Store(tmp_path))}
    assert rows["none"].status == "skipped"
    mixed = next(row for name, row in rows.items() if name != "none")
    assert (mixed.status, mixed.party) == ("done", "mixer")
    assert {score.against for score in mixed.scores} == {""}


@pytest.mark.parametrize("clients", [2, 3])
def test_bytes_down_are_those_that_server_and_mixer_send_to_clients(tmp_path: Path, clients: int) -> None:
    plan = cells(topology="parallel", clients=clients, defenses=[f"{DEFENSES}:Mixup"], training={"batch": 16})
    row = run(plan, Store(tmp_path))[-1].outcome
    assert row.status == "done", row.reason
    each = 96 // clients  # with a pass until the largest client is done, each is sent as many gradients as samples
    smashed = 4 * 6 * 28 * 28
    epochs = plan[-1].run.training.epochs
    assert row.costs["bytes_down"] == epochs * clients * each * smashed
    assert row.costs["bytes_up"] == epochs * clients * each * (smashed + 8)


def test_none_with_some_clients_protected_is_one_run(tmp_path: Path) -> None:
    plan = cells(clients=3, topology="parallel", cases=[{"protected": 0}, {"protected": 2}, {"protected": 3}, {}])
    assert len(plan) == 1
    one, two, three = (
        sb.train("none", store=tmp_path, **{**SMALL, "clients": 3, "protected": k}).run for k in (1, 2, 3)
    )
    assert one == two == three
    assert Store(tmp_path).runs() == [one]


def test_another_thread_count_is_no_active_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that is not bit-identical is reported as that; only what tampers has costs under attack."""
    from splitbench.runner import execute

    monkeypatch.setattr(execute, "_identical", lambda *_: False)
    for name, threat in (("Eavesdropper", {}), ("Eavesdropper", {"tampers": True}), ("Vandal", {"tampers": True})):
        row = run(cells(attacks=[f"{ATTACKS}:{name}"], threat=threat), Store(tmp_path))[1].outcome
        assert row.status == "done", row.reason
        assert row.costs["replay_identical"] == 0.0
        assert any(cost.endswith("_under_attack") for cost in row.costs) == (name == "Vandal")


PUBLIC = [
    ("sdar", True),
    ("class_mean", True),
    ("nearest_auxiliary", True),
    ("majority", True),
    ({"inversion": {"shadow_labels": 0.5}}, True),
    ("inversion", False),
    ("fora", False),
    ("mean_image", False),
    ("unsplit", False),
]


@pytest.mark.parametrize(("attack", "labels"), PUBLIC, ids=str)
def test_labels_of_another_data_set_are_not_taken_for_those_of_this_one(
    attack: Any, labels: bool, tmp_path: Path
) -> None:
    draws = np.random.default_rng(0)
    images = {f"x_{split}": draws.integers(0, 256, (64, 28, 28, 1), np.uint8) for split in ("train", "test")}
    file = tmp_path / "others.npz"
    np.savez(file, **images, y_train=np.arange(64) % 10, y_test=np.arange(64) % 10)
    for same in ({}, {"auxiliary": "fashion_mnist_mini"}):
        assert refused(cells(attacks=[attack], **same)[1]) is None
    [_, foreign] = cells(attacks=[attack], auxiliary=str(file))
    name = attack if isinstance(attack, str) else next(iter(attack))
    sentence = (
        f"{name} uses the labels of auxiliary samples, and those of {file} mean something else than those of "
        "fashion_mnist_mini"
    )
    assert refused(foreign) == (sentence if labels else None)


def test_every_attack_that_reads_public_labels_says_so() -> None:
    """In the source of the attacks, who touches `auxiliary.y`, or has it compared with labels, declares it."""
    folder = Path(sb.__file__).parent / "attacks"
    readers = {p.name for p in folder.glob("*.py") if any(w in p.read_text() for w in ("auxiliary.y", "alike("))}
    declaring = {path.name for path in folder.glob("*.py") if "uses_public_labels" in path.read_text()}
    assert readers <= declaring
    assert {"sdar.py", "class_mean.py", "inversion.py"} <= declaring


def test_membership_needs_candidates() -> None:
    [_, without] = cells(attacks=[f"{ATTACKS}:LossOfCandidate"])
    [_, given] = cells(attacks=[f"{ATTACKS}:LossOfCandidate"], samples={**SMALL["samples"], "candidates": 8})
    assert "needs candidates=1" in (refused(without) or "")
    assert refused(given) is None


def test_an_attack_of_a_client_is_refused_to_a_server_with_how_to_grant_it() -> None:
    [_, cell] = cells(attacks=[f"{ATTACKS}:ClassGradient"], record=True)
    assert cell.threat == ThreatModel(
        labels=True, architecture=True, auxiliary=32, queries=32, transcript=True, party="server"
    )
    said = refused(cell) or ""
    assert "needs party=client but the threat model grants party=server" in said
    assert "--party client0" in said
