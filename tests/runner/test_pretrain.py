"""Networks that begin pretrained, clients that stay frozen, and adversaries that hold a client's weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from splitbench.core.errors import SplitbenchError
from splitbench.core.party import SERVER, client
from splitbench.core.threat import ThreatModel
from splitbench.plan.cells import Training
from splitbench.runner import api, pretrain, runfolder
from splitbench.runner.adversary import observed_by, view_of
from splitbench.runner.learner import Optimised
from splitbench.runner.prepare import prepare
from splitbench.runner.train import train
from splitbench.store.store import Store
from tests.runner._small import cells, seen

VIT = {"model": {"vit_tiny": {"patch": 7, "depth": 2, "width": 24, "heads": 2}}, "cut": "block1"}
QUICK = {"epochs": 1, "batch": 16, "pretrain_epochs": 2}


@pytest.fixture(autouse=True)
def _nothing_remembered():
    pretrain._made.clear()
    yield
    pretrain._made.clear()


def run(**changes):
    training = {**QUICK, **changes.pop("training", {})}
    return cells(**{**VIT, "training": training, **changes})[0].run


def state(prepared):
    return runfolder.state(prepared)


@pytest.mark.parametrize("kind", ["masked", "supervised"])
def test_a_pretrained_network_has_learned_from_public_samples_alone(kind):
    bare, begun = prepare(run()), prepare(run(training={"pretrain": kind}))
    assert any(not torch.equal(a, b) for a, b in zip(state(bare).values(), state(begun).values(), strict=True))
    # Other private samples, the same public ones: the same weights.
    spec = run(training={"pretrain": kind})
    data, allocation = begun.data, begun.allocation
    start = pretrain.pretraining(spec, data, replace(allocation, private=allocation.private[:3]))
    assert start is not None
    assert len(pretrain._made) == 1


def test_masked_pretraining_lowers_its_loss(monkeypatch):
    losses = []
    monkeypatch.setattr(pretrain, "tell", lambda what, done, total, note: losses.append(float(note.split()[1])))
    prepare(run(training={"pretrain": "masked", "pretrain_epochs": 40}))
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


def test_what_was_pretrained_is_kept_in_the_store_and_made_once(tmp_path, monkeypatch):
    made = []
    whole = pretrain.pretrained
    monkeypatch.setattr(pretrain, "pretrained", lambda *given: made.append(1) or whole(*given))
    spec = run(training={"pretrain": "masked"})
    with pretrain.keeping_pretrained(Store(tmp_path)):
        first = state(prepare(spec))
        pretrain._made.clear()
        again = state(prepare(spec))
        defended = prepare(run(training={"pretrain": "masked"}, defenses=["patch_shuffle"]))
    assert len(made) == 1, "once, and reused by every defense"
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert len(list((tmp_path / "pretrained").iterdir())) == 1
    assert defended.members[SERVER].stages


def test_a_damaged_file_of_weights_is_made_again(tmp_path):
    spec = run(training={"pretrain": "masked"})
    with pretrain.keeping_pretrained(Store(tmp_path)):
        first = state(prepare(spec))
        file = next((tmp_path / "pretrained").iterdir())
        file.write_bytes(b"nonsense")
        pretrain._made.clear()
        again = state(prepare(spec))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_a_stored_run_is_loaded_without_pretraining_again(tmp_path, monkeypatch):
    store = Store(tmp_path)
    outcome = api.train(["none"], **VIT, training={**QUICK, "pretrain": "masked"},
                        samples={"private": 48, "auxiliary": 32, "evaluation": 4}, store=tmp_path)  # fmt: skip
    assert outcome.status == "done", outcome.reason
    monkeypatch.setattr(pretrain, "pretrained", lambda *given: pytest.fail("pretrained again"))
    pretrain._made.clear()
    assert runfolder.load(store, outcome.run).losses


def test_a_network_without_tokens_cannot_be_masked_and_the_reason_says_what_can():
    spec = cells(training={**QUICK, "pretrain": "masked"})[0].run
    with pytest.raises(SplitbenchError, match="no tokens to mask; use pretrain: supervised"):
        prepare(spec)


def test_rows_made_before_keep_their_keys():
    """What was added to a training is left out of its document where it changes nothing."""
    assert not {"head_lr", "end", "frozen", "pretrain", "pretrain_epochs"} & Training().document().keys()
    assert Training(pretrain_epochs=7).document() == Training().document()
    said = Training(frozen=True, pretrain="masked", pretrain_epochs=7).document()
    assert (said["frozen"], said["pretrain"], said["pretrain_epochs"]) == (True, "masked", 7)
    assert Training(**said) == Training(frozen=True, pretrain="masked", pretrain_epochs=7)


def test_a_frozen_client_stays_as_it_began_and_is_sent_no_gradient():
    prepared = prepare(run(training={"frozen": True}))
    before = {name: value.clone() for name, value in state(prepared).items()}
    trained = train(prepared)
    after = state(trained.prepared)
    mine = [name for name in after if name.startswith("client")]
    assert mine
    assert all(torch.equal(before[name], after[name]) for name in mine)
    assert any(not torch.equal(before[name], after[name]) for name in after if name not in mine)
    assert trained.wire.down == 0


def test_frozen_running_statistics_stay_too():
    spec = cells(model={"resnet18": {"width": 0.125}}, cut="stem", training={**QUICK, "frozen": True})[0].run
    prepared = prepare(spec)
    before = {name: value.clone() for name, value in state(prepared).items() if name.startswith("client")}
    after = state(train(prepared).prepared)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_last_layer_may_have_a_rate_of_its_own_and_a_cosine_may_end_above_nothing():
    stage = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    training = Training(optimizer="sgd", lr=0.01, head_lr=1.0, schedule="cosine", epochs=2, end=0.25)
    learner = Optimised([stage], training, 2, head=True)
    rates = []
    for _ in range(3):
        learner.step()
        rates.append([group["lr"] for group in learner.optimizer.param_groups])
    assert_close(torch.tensor(rates), torch.tensor([[0.01, 1.0], [0.00625, 0.625], [0.0025, 0.25]]))
    last = learner.optimizer.param_groups[1]["params"]
    assert {id(p) for p in last} == {id(p) for p in stage[2].parameters()}
    assert len(Optimised([stage], training, 2).optimizer.param_groups) == 1, "not the party that has the last layer"


def test_an_adversary_that_holds_the_weights_gets_the_clients_layers_and_no_other_does():
    trained = train(prepare(cells(**VIT, defenses=["patch_shuffle"], training=QUICK)[-1].run))
    with seen(trained, ThreatModel(auxiliary=4, queries=4)) as view:
        assert view.client is None
    with seen(trained, ThreatModel(auxiliary=4, queries=4, weights=True)) as view:
        layers = view.client()
        mine = trained.prepared.members[client(0)].stages[0]
        assert all(torch.equal(a, b) for a, b in zip(layers.parameters(), mine.parameters(), strict=True))
        z = layers(view.auxiliary.x)
        sent = view.query(view.auxiliary.x)[0]
        assert_close(z[:, 1:].sort(1).values, sent[:, 1:].sort(1).values, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(z, sent, atol=1e-3), "in true order, which the black box does not tell"
        next(layers.parameters()).data.zero_()
        assert float(next(mine.parameters()).abs().sum()) > 0, "a copy"


def test_targets_of_a_batch_shuffle_say_how_many_were_shuffled_together():
    spec = cells(
        **VIT, defenses=["batch_shuffle"], training=QUICK, samples={"private": 48, "auxiliary": 32, "evaluation": 20}
    )[-1].run
    trained = train(prepare(spec))
    with seen(trained, ThreatModel(auxiliary=4, queries=4, rounds=2)) as view:
        assert view.batch == 16
        assert view.targets.shape[:2] == (2, 20)
        assert view.layout.grid == (4, 4)
    prepared = trained.prepared
    from splitbench.attacks.black import Black

    observed = observed_by(Black(), trained, ThreatModel())
    assert observed.about.lead
    assert observed.about.samples[:, 0].tolist() == prepared.allocation.evaluation.tolist()
    assert observed.labels is not None, "labels are not mixed"


def test_the_worst_case_adversary_is_given_what_was_trained_on():
    trained = train(prepare(run()))
    held = trained.prepared
    with view_of(trained, ThreatModel(auxiliary=5, private=True), "inputs", None) as view:
        mine = held.data.train.x[held.clients[0]][:5].float() / 255
        assert_close(view.auxiliary.x, mine)
    with view_of(trained, ThreatModel(auxiliary=5), "inputs", None) as view:
        assert not torch.allclose(view.auxiliary.x, mine)
