"""The adversary holds what its threat model says and no more; attending a run changes nothing of it."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks.sdar import SDAR
from splitbench.core.data import as_input
from splitbench.core.errors import SplitbenchError
from splitbench.core.threat import ThreatModel
from splitbench.runner import adversary, runfolder
from splitbench.runner.adversary import replay, view_of
from splitbench.runner.execute import run
from splitbench.runner.prepare import prepare
from splitbench.runner.train import Trained, train
from splitbench.store.store import Store

from ._small import cells

OWN = Path(__file__).parent / "_own_attacks.py"


def tensors(thing: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """Every tensor that can be reached by following attributes, items, closures and bound methods."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | int | float | type | types.ModuleType | type(None)):
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor):
        yield thing
        return
    inner: list[Any] = []
    if isinstance(thing, dict):
        inner += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        inner += thing
    elif isinstance(thing, functools.partial):
        inner += [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, types.MethodType):
        inner += [thing.__self__, thing.__func__]
    elif isinstance(thing, types.FunctionType):
        inner += [cell.cell_contents for cell in thing.__closure__ or ()] + list(thing.__defaults__ or ())
    if isinstance(thing, nn.Module):
        inner += [*thing.parameters(), *thing.buffers()]
    inner += list(getattr(thing, "__dict__", {}).values())
    for one in inner:
        yield from tensors(one, seen)


@pytest.fixture(scope="module", params=["vanilla", "u_shaped", "parallel"])
def trained(request: pytest.FixtureRequest) -> Trained:
    [cell] = cells(topology=request.param, clients=2, record=True, defenses=[["gaussian", "nopeek"]])
    return train(prepare(cell.run))


ALL = ThreatModel(labels=True, architecture=True, auxiliary=32, queries=32, transcript=True, tampers=True)


def test_the_walk_finds_what_is_hidden_in_closures_and_modules() -> None:
    secret = torch.rand(3)
    layer = nn.Linear(2, 2)
    found = list(tensors({"a": [lambda: secret, functools.partial(print, layer)]}))
    assert any(t is secret for t in found)
    assert any(t is layer.weight for t in found)


@pytest.mark.parametrize("live", [False, True])
def test_no_tensor_of_a_view_is_a_private_input_or_a_client_weight(trained: Trained, live: bool) -> None:
    prepared = trained.prepared
    with view_of(trained, ALL, live=live) as view:
        held = [t.detach() for t in tensors(view)]
    assert len(held) > 10
    private = as_input(torch.cat([prepared.data.train.x[prepared.allocation.private], prepared.evaluation.x]))
    secrets = {tuple(row.flatten().tolist()) for row in private}
    weights = [p for model in prepared.models for stage in model.owned_by("client") for p in stage.parameters()]
    for tensor in held:
        assert not any(tensor.data_ptr() == w.data_ptr() for w in weights if w.numel() and tensor.numel())
        assert not any(tensor.shape == w.shape and torch.equal(tensor, w) for w in weights)
        if tensor.dim() == 4 and tensor.shape[1:] == private.shape[1:]:
            assert not any(tuple(row.flatten().tolist()) in secrets for row in tensor.float())


def test_what_the_threat_model_denies_is_not_there(trained: Trained) -> None:
    with view_of(trained, ThreatModel()) as view:
        assert view.labels is None
        assert view.template is None
        assert view.auxiliary is None
        assert view.query is None
        assert list(view.heard) == []


def test_what_was_heard_is_what_crossed_and_names_no_samples(trained: Trained) -> None:
    with view_of(trained, ALL) as view:
        assert len(view.heard) == len(trained.wire.transcript) > 0
        assert all(message.samples is None for message in view.heard)


def test_queries_are_counted_and_end(trained: Trained) -> None:
    with view_of(trained, ALL) as view:
        assert view.query is not None
        assert view.auxiliary is not None
        answer = view.query(view.auxiliary.x[:20])
        assert answer.shape == (20, *view.targets.shape[1:])
        with pytest.raises(SplitbenchError, match="12 more queries"):
            view.query(view.auxiliary.x[:13])


def test_queries_and_targets_pass_the_defense(trained: Trained) -> None:
    """Gaussian noise: the same input is answered differently each time."""
    with view_of(trained, ALL) as view:
        assert view.query is not None
        assert view.auxiliary is not None
        x = view.auxiliary.x[:4]
        assert not torch.equal(view.query(x), view.query(x))


def test_a_template_is_the_clients_layers_with_other_weights(trained: Trained) -> None:
    client = trained.prepared.models[0].stages[0]
    with view_of(trained, ALL) as view:
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
    before, after = (runfolder.state(t.prepared.models) for t in (trained, loaded))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
