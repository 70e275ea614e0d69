"""Targets are what the protocol sends the attacking party: mixed, shuffled, in several rounds, in a known order."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from splitbench.core.data import as_input
from splitbench.core.message import About, Message
from splitbench.core.metric import Truth
from splitbench.core.party import MIXER, SERVER, Party, client
from splitbench.core.randomness import Streams
from splitbench.core.threat import ThreatModel
from splitbench.core.wire import Wire
from splitbench.metrics.mse import MSE
from splitbench.runner import runfolder
from splitbench.runner.adversary import mount, observed_by
from splitbench.runner.execute import run
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.targets import observe
from splitbench.runner.train import Trained
from splitbench.store.store import Store

from ._own_attacks import ClassGradient, Glance, glanced
from ._small import cells, observed, seen

ATTACKS = Path(__file__).parent / "_own_attacks.py"
DEFENSES = Path(__file__).parent / "_own_defenses.py"
COUNTS = {"private": 48, "auxiliary": 16, "evaluation": 7}


def untrained(defense: str = "none", clients: int = 2, **changes: object) -> Trained:
    name = defense if defense.islower() else f"{DEFENSES}:{defense}"
    changes = {"topology": "parallel", "clients": clients, "samples": COUNTS, "defenses": [name], **changes}
    return Trained(prepare(cells(**changes)[-1].run), Wire(), ())


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """Everything that any wire carries."""
    heard: list[Message] = []
    carry = Wire.carry

    def listening(wire: Wire, message: Message) -> Message:
        arrived = carry(wire, message)
        heard.append(arrived.carrying(arrived.tensor.detach().clone()))
        return arrived

    monkeypatch.setattr(Wire, "carry", listening)
    return heard


def smashed(prepared: Prepared, index: int, x: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = prepared.members[client(index)].stages[0](as_input(x))
        return found


def rows(prepared: Prepared) -> Tensor:
    return prepared.allocation.evaluation


@pytest.mark.parametrize("defense", ["none", "gaussian", "Mixup", "CutMix", "Shuffle"])
@pytest.mark.parametrize("party", [SERVER, client(0), client(1)])
def test_targets_are_what_reached_the_party_on_the_wire(defense: str, party: Party, passing: list[Message]) -> None:
    found = observed(untrained(defense), ThreatModel(party=str(party), rounds=2))
    kind = "smashed" if party == SERVER else "gradient"
    sent = [m.tensor for m in passing if m.receiver == party and m.kind == kind]
    assert torch.equal(found.targets.flatten(0, 1), torch.cat(sent))
    assert [m for round_ in found.messages for m in round_] != []
    assert all(m.receiver == party for round_ in found.messages for m in round_)


def test_mixtures_are_as_drawn_and_the_truth_names_their_members_with_shares(passing: list[Message]) -> None:
    prepared = untrained("Mixup").prepared
    found = observed(Trained(prepared, Wire(), ()), ThreatModel())
    # Seven samples for two clients: neighbours meet, and the first one again fills the last pair.
    one, other = [0, 2, 4, 6], [1, 3, 5, 0]
    x = prepared.evaluation.x
    weights = torch.rand(4, generator=Streams(prepared.spec.seed, MIXER, "targets").of("defense"))
    share = weights.view(-1, 1, 1, 1)
    by_hand = share * smashed(prepared, 0, x[one]) + (1 - share) * smashed(prepared, 1, x[other])
    assert torch.allclose(found.targets[0], by_hand, atol=1e-6)
    assert torch.equal(found.about.samples, rows(prepared)[torch.tensor([one, other]).T])
    assert torch.equal(found.about.owners, torch.tensor([[0, 1]] * 4))
    assert torch.allclose(found.about.shares, torch.stack((weights, 1 - weights), 1))
    assert found.labels is None


def test_the_mixer_is_sent_what_is_not_mixed_yet(passing: list[Message]) -> None:
    prepared = untrained("Mixup").prepared
    found = observed(Trained(prepared, Wire(), ()), ThreatModel(party="mixer"))
    x = prepared.evaluation.x
    unmixed = torch.cat((smashed(prepared, 0, x[[0, 2, 4, 6]]), smashed(prepared, 1, x[[1, 3, 5, 0]])))
    assert torch.allclose(found.targets[0], unmixed, atol=1e-6)
    assert torch.equal(found.about.samples[:, 0], rows(prepared)[torch.tensor([0, 2, 4, 6, 1, 3, 5, 0])])
    assert not found.about.mixes


def test_a_client_is_sent_the_gradient_of_the_servers_loss_by_what_it_sent() -> None:
    prepared = untrained().prepared
    found = observed(Trained(prepared, Wire(), ()), ThreatModel(party="client1"))
    samples = prepared.evaluation
    z = smashed(prepared, 1, samples.x).requires_grad_()
    loss = torch.nn.functional.cross_entropy(prepared.members[SERVER].stages[0](z), samples.y)
    (slope,) = torch.autograd.grad(loss, z)
    assert torch.allclose(found.targets[0], slope, atol=1e-7)
    assert torch.equal(found.about.owners, torch.ones(7, 1, dtype=torch.int64))
    assert all(p.grad is None for member in prepared.members.values() for s in member.stages for p in s.parameters())


def test_rows_that_a_client_shuffled_are_told_by_the_truth_and_by_nothing_else() -> None:
    trained = untrained("Shuffle", clients=1, topology="vanilla")
    prepared = trained.prepared
    found = observed(trained, ThreatModel())
    z = smashed(prepared, 0, prepared.evaluation.x)
    order = found.about.shares.argmax(1)
    assert sorted(order.tolist()) == list(range(7))
    assert order.tolist() != list(range(7))
    assert torch.allclose(found.targets[0], z[order], atol=1e-6)
    assert torch.equal(found.about.samples[torch.arange(7), order], rows(prepared)[order])
    with seen(trained, ThreatModel(labels=True)) as view:
        assert view.labels is None
        assert all(message.about is None for round_ in view.messages for message in round_)


@pytest.mark.parametrize(("defense", "alike"), [("none", True), ("gaussian", False), ("Mixup", False)])
def test_two_rounds_are_two_draws(defense: str, alike: bool) -> None:
    with seen(untrained(defense), ThreatModel(rounds=2, queries=8, auxiliary=8)) as view:
        assert len(view.targets) == len(view.messages) == 2
        assert torch.equal(view.targets[0], view.targets[1]) == alike
        assert view.query is not None
        assert view.auxiliary is not None
        answers = view.query(view.auxiliary.x)
        assert answers.shape[:2] == (2, 8)
        assert torch.equal(answers[0], answers[1]) == (defense != "gaussian")
        assert view.query.left == 0


def test_two_rounds_reach_an_attack_and_its_queries(tmp_path: Path) -> None:
    plan = cells(defenses=["gaussian"], attacks=[f"{ATTACKS}:BetweenRounds"], threat={"rounds": 2})
    row = run(plan, Store(tmp_path))[-1].outcome
    assert row.status == "done", row.reason
    guess = runfolder.load_recovered(Store(tmp_path), row.run, row.key)["inputs"]
    assert guess.min() > 0


def test_more_rounds_do_not_change_the_first() -> None:
    once, twice = (observed(untrained("gaussian"), ThreatModel(rounds=rounds)) for rounds in (1, 2))
    assert torch.equal(once.targets[0], twice.targets[0])


def test_observing_changes_nothing_of_a_run() -> None:
    trained = untrained("gaussian")
    before = runfolder.state(trained.prepared)
    draws = [m.streams.of("defense").get_state() for m in trained.prepared.members.values()]
    observed(trained, ThreatModel(rounds=2))
    after = runfolder.state(trained.prepared)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(
        torch.equal(state, m.streams.of("defense").get_state())
        for state, m in zip(draws, trained.prepared.members.values(), strict=True)
    )


@pytest.mark.parametrize("topology", ["vanilla", "u_shaped", "parallel", "splitfed"])
def test_targets_and_scores_are_in_the_order_of_evaluation(topology: str, tmp_path: Path) -> None:
    """The mean of the maps is scored beside the sample that made it: computed by hand from the stored networks."""
    plan = cells(topology=topology, clients=2, attacks=[f"{ATTACKS}:Glance"], samples=COUNTS)
    store = Store(tmp_path)
    row = run(plan, store)[-1].outcome
    assert row.status == "done", row.reason
    prepared = runfolder.load(store, row.run).prepared
    samples = prepared.evaluation
    for member in prepared.members.values():
        for stage in member.stages:
            stage.eval()
    by_hand = MSE()(glanced(smashed(prepared, 0, samples.x)), Truth.of(as_input(samples.x)))
    score = row.score("mse")
    assert score is not None
    assert score.values == pytest.approx(by_hand.tolist(), abs=1e-6)
    assert row.samples == tuple(rows(prepared).tolist())


def _by_hand(guess: Tensor, about: About, images: Tensor, numbers: list[int]) -> tuple[list[float], list[float]]:
    """Squared errors, one sample and one pixel column at a time: of each member its best, of each row its mixture."""
    best = dict.fromkeys(numbers, float("inf"))
    of_rows = []
    for n in range(len(guess)):
        whole = torch.zeros_like(images[0])
        for k in range(about.samples.shape[1]):
            share = float(about.shares[n, k])
            if share == 0:
                continue
            image = images[numbers.index(int(about.samples[n, k]))]
            error = float((guess[n] - image).square().mean())
            best[int(about.samples[n, k])] = min(best[int(about.samples[n, k])], error)
            whole += image * (share if about.places is None else about.places[n, k])
        of_rows.append(float((guess[n] - whole).square().mean()))
    return list(best.values()), of_rows


@pytest.mark.parametrize(
    ("defense", "topology", "clients"),
    [("Mixup", "parallel", 2), ("CutMix", "parallel", 2), ("Shuffle", "vanilla", 1), ("Mixup", "splitfed", 3)],
)
def test_scores_say_what_was_recovered_of_each_member_and_of_the_mixture(
    defense: str, topology: str, clients: int, tmp_path: Path
) -> None:
    plan = cells(
        topology=topology, clients=clients, samples=COUNTS,
        defenses=[f"{DEFENSES}:{defense}"], attacks=[f"{ATTACKS}:Glance", "class_mean"],
    )  # fmt: skip
    store = Store(tmp_path)
    *_, row, floor = (finished.outcome for finished in run(plan, store))
    assert row.status == "done", row.reason
    trained = runfolder.load(store, row.run)
    found = observed(trained, ThreatModel())
    guess = glanced(found.targets[0])
    prepared = trained.prepared
    reached = [int(n) for n in rows(prepared) if int(n) in found.about.samples[found.about.shares > 0]]
    # The third client's samples are never mixed in, so that nobody can recover them.
    assert len(reached) == (7 if clients < 3 else 5)
    images = as_input(prepared.data.test.x[reached])
    members, mixtures = _by_hand(guess, found.about, images, reached)
    scores = {s.against: s for s in row.scores if (s.metric, s.readout) == ("mse", "clamp")}
    assert set(scores) == {"member", "mixture"}
    assert scores["member"].values == pytest.approx(members, abs=1e-6)
    assert scores["mixture"].values == pytest.approx(mixtures, abs=1e-6)
    assert row.samples == tuple(reached)
    assert row.score("mse") == scores["member"]
    assert (floor.status, "about several samples" in floor.reason) == ("skipped", True)


def test_a_metric_added_later_still_knows_the_places_of_a_cut(tmp_path: Path) -> None:
    plan = cells(
        topology="parallel", clients=2, samples=COUNTS,
        defenses=[f"{DEFENSES}:CutMix"], attacks=[f"{ATTACKS}:Glance"],
    )  # fmt: skip
    store = Store(tmp_path)
    first = run(plan, store)[-1].outcome
    store.put(dataclasses.replace(first, scores=tuple(s for s in first.scores if s.metric != "mse")))
    again = run(plan, store)[-1]
    assert again.reused
    wanted = {s for s in first.scores if s.metric == "mse"}
    assert {s for s in again.outcome.scores if s.metric == "mse"} == wanted


def test_the_gradient_passes_a_mixture_back_to_each_member() -> None:
    """A client's gradient is its share of the mixture's: what a client attacks with under mixing."""
    prepared = untrained("Mixup").prepared
    mine = observed(Trained(prepared, Wire(), ()), ThreatModel(party="client0"))
    samples = prepared.evaluation
    one, other = [0, 2, 4, 6], [1, 3, 5, 0]
    weights = torch.rand(4, generator=Streams(prepared.spec.seed, MIXER, "targets").of("defense"))
    z = smashed(prepared, 0, samples.x[one]).requires_grad_()
    mixed = weights.view(-1, 1, 1, 1) * z + (1 - weights).view(-1, 1, 1, 1) * smashed(prepared, 1, samples.x[other])
    hard = torch.nn.functional.one_hot(samples.y, 10).float()
    soft = weights[:, None] * hard[one] + (1 - weights[:, None]) * hard[other]
    loss = torch.nn.functional.cross_entropy(prepared.members[SERVER].stages[0](mixed), soft)
    (slope,) = torch.autograd.grad(loss, z)
    assert torch.allclose(mine.targets[0], slope, atol=1e-7)


def test_membership_is_asked_of_candidates_in_their_order() -> None:
    trained = untrained(clients=1, topology="vanilla", samples={**COUNTS, "candidates": 5})
    attack = Glance()
    type(attack).goal = "membership"
    try:
        found = observed_by(attack, trained, ThreatModel())
    finally:
        type(attack).goal = "inputs"
    samples, members = trained.prepared.candidates
    assert torch.allclose(found.targets[0], smashed(trained.prepared, 0, samples.x), atol=1e-6)
    assert found.labels is not None
    assert torch.equal(found.labels, samples.y)
    assert (int(members.sum()), len(members)) == (5, 10)


@pytest.mark.parametrize("party", ["server", "client1"])
def test_targets_of_the_training_are_the_last_that_reached_the_party_about_it(
    party: str, passing: list[Message]
) -> None:
    _, cell = cells(topology="vanilla", clients=2, samples=COUNTS, attacks=[f"{ATTACKS}:LabelsOfTargets"])
    assert cell.threat is not None
    trained = Trained(prepare(cell.run), Wire(), ())
    attack = ClassGradient()
    type(attack).aims = "training"
    try:
        found = observed_by(attack, trained, dataclasses.replace(cell.threat, party=party))
    finally:
        type(attack).aims = "evaluation"
    kind = "smashed" if party == "server" else "gradient"
    whose = client(0) if party == "server" else client(1)
    sent = [m for m in passing if str(m.receiver) == party and m.kind == kind and whose in (m.sender, m.receiver)]
    assert torch.equal(found.targets[0], torch.cat([m.tensor for m in sent])[-7:])
    about = torch.cat([m.about.samples for m in sent if m.about is not None])[-7:]
    assert torch.equal(found.about.samples, about)
    assert set(about.flatten().tolist()) <= set(trained.prepared.clients[whose.index].tolist())
    assert found.labels is not None
    assert torch.equal(found.labels, trained.prepared.data.train.y[about[:, 0]])


def test_granted_labels_of_training_targets_are_those_of_the_training_split() -> None:
    _, cell = cells(attacks=[f"{ATTACKS}:LabelsOfTargets"])
    mounted = mount(cell, Trained(prepare(cell.run), Wire(), ()))
    assert mounted.recovered.inputs is not None
    labels = (mounted.recovered.inputs[:, 0, 0, 0] * 10).round().long()
    data = mounted.trained.prepared.data
    assert torch.equal(labels, data.train.y[mounted.about.samples[:, 0]])


def test_samples_are_sent_in_batches_no_larger_than_those_of_the_training(passing: list[Message]) -> None:
    prepared = untrained(clients=1, topology="vanilla", training={"epochs": 1, "batch": 3}).prepared
    samples = prepared.evaluation
    observe(prepared, SERVER, samples.x, samples.y, rows(prepared))
    assert [len(m.tensor) for m in passing if m.kind == "smashed"] == [3, 3, 1]
