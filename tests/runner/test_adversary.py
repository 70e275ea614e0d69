"""The adversary holds what its threat model says and no more; attending a run changes nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from splitbench.attacks.sdar import SDAR
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import SERVER
from splitbench.core.threat import ThreatModel
from splitbench.runner import adversary, runfolder
from splitbench.runner.adversary import replay
from splitbench.runner.execute import run
from splitbench.runner.prepare import prepare
from splitbench.runner.train import Trained, train
from splitbench.store.store import Store

from ._small import cells, seen

OWN = Path(__file__).parent / "_own_attacks.py"


@pytest.fixture(scope="module", params=["vanilla", "u_shaped", "parallel"])
def trained(request: pytest.FixtureRequest) -> Trained:
    [cell] = cells(topology=request.param, clients=2, record=True, defenses=[["gaussian", "nopeek"]])
    return train(prepare(cell.run))


ALL = ThreatModel(labels=True, architecture=True, auxiliary=32, queries=32, transcript=True, tampers=True)


def test_what_the_threat_model_denies_is_not_there(trained: Trained) -> None:
    with seen(trained, ThreatModel()) as view:
        assert view.labels is None
        assert view.template is None
        assert view.auxiliary is None
        assert view.query is None
        assert list(view.heard) == []


def test_what_was_heard_is_what_crossed_and_names_no_samples(trained: Trained) -> None:
    """Of what others sent each other (in vanilla, clients hand on their weights), the server heard nothing."""
    transcript = trained.wire.transcript
    with seen(trained, ALL) as view:
        mine = [message.seen() for message in transcript if SERVER in (message.sender, message.receiver)]
        assert [str(m) for m in view.heard] == [str(m) for m in mine]
        assert len(mine) > 0
        assert (len(mine) < len(transcript)) == any(message.kind == "weights" for message in transcript)
        assert all(message.about is None for message in view.heard)


def test_queries_are_counted_and_end(trained: Trained) -> None:
    with seen(trained, ALL) as view:
        assert view.query is not None
        assert view.auxiliary is not None
        answer = view.query(view.auxiliary.x[:20])
        assert answer.shape == (1, 20, *view.targets.shape[2:])
        with pytest.raises(SplitbenchError, match="12 more queries"):
            view.query(view.auxiliary.x[:13])


def test_queries_and_targets_pass_the_defense(trained: Trained) -> None:
    """Gaussian noise: the same input is answered differently each time."""
    with seen(trained, ALL) as view:
        assert view.query is not None
        assert view.auxiliary is not None
        x = view.auxiliary.x[:4]
        assert not torch.equal(view.query(x), view.query(x))


def test_a_template_is_the_clients_layers_with_other_weights(trained: Trained) -> None:
    client = trained.prepared.models[0].stages[0]
    with seen(trained, ALL) as view:
        assert view.template is not None
        built = view.template()
    assert [p.shape for p in built.parameters()] == [p.shape for p in client.parameters()]


@pytest.mark.parametrize("topology", ["vanilla", "u_shaped"])
def test_a_passive_attack_leaves_the_run_bit_identical(tmp_path: Path, topology: str) -> None:
    """It trains networks of its own through the server's layers, and draws random numbers, at every message."""
    store = Store(tmp_path)
    trained, eavesdropped = run(cells(topology=topology, attacks=[f"{OWN}:Eavesdropper"]), store)
    assert eavesdropped.outcome.status == "done", eavesdropped.outcome.reason
    assert eavesdropped.outcome.costs["replay_identical"] == 1.0
    assert trained.outcome.status == "done"


@pytest.mark.parametrize("clients", [1, 2])
def test_what_is_recalled_after_the_fact_is_what_was_said_last(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cell = cells(attacks=["sdar"], clients=clients, training={"epochs": 2, "batch": 8})
    trainings: list[Any] = []

    def counted(*args: Any) -> Trained:
        trainings.append(args)
        return train(*args)

    monkeypatch.setattr(adversary, "train", counted)
    monkeypatch.setattr(SDAR, "recalls", 20)
    first, second = SDAR(), SDAR()
    for attack in (first, second):
        replay(attack, cell, torch.Generator())
    assert len(trainings) == 1
    live = SDAR()
    train(prepare(cell.run), [live.hear])
    for one, other, third in zip(first.heard, second.heard, live.heard, strict=True):
        assert one.step == other.step == third.step
        assert torch.equal(one.smashed, other.smashed)
        assert torch.equal(one.smashed, third.smashed)
        assert one.labels is not None
        assert third.labels is not None
        assert torch.equal(one.labels, third.labels)
    assert sum(len(each.smashed) for each in live.heard) >= 20


def test_an_active_attack_changes_the_run_and_its_utility_is_told(tmp_path: Path) -> None:
    plan = cells(attacks=[f"{OWN}:Vandal"], threat={"tampers": True})
    row = run(plan, Store(tmp_path))[1].outcome
    assert row.status == "done", row.reason
    assert row.costs["replay_identical"] == 0.0
    assert "accuracy_under_attack" in row.costs


def test_an_active_attack_without_the_right_to_tamper_is_skipped(tmp_path: Path) -> None:
    row = run(cells(attacks=[f"{OWN}:Vandal"]), Store(tmp_path))[1].outcome
    assert row.status == "skipped"
    assert "tampers=true" in row.reason


def test_the_truth_never_reaches_an_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack that returns whatever image it can reach in its view finds none of the targets."""
    store = Store(tmp_path)
    row = run(cells(attacks=[f"{OWN}:Scavenger"]), store)[1].outcome
    assert row.status == "done", row.reason
    mse = row.score("mse")
    assert mse is not None
    assert min(mse.values) > 1e-4


def test_a_stored_run_is_what_was_trained(tmp_path: Path) -> None:
    [cell] = cells()
    trained = train(prepare(cell.run))
    store = Store(tmp_path)
    runfolder.save(store, trained)
    loaded = runfolder.load(store, cell.key)
    before, after = (runfolder.state(t.prepared) for t in (trained, loaded))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
