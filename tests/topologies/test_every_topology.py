"""What holds for each topology in the folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F
from torch import Generator
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Plan
from splitbench.core.message import Message
from splitbench.core.party import SERVER, Party, client
from splitbench.core.registry import describe, names
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from tests.topologies._small import (
    BOTTOM,
    ROW,
    batch,
    every_topology,
    gradients,
    label,
    network,
    scene,
    state,
    whole,
)

each = pytest.mark.parametrize("topology", every_topology(), ids=label)
each_with_a_cut = pytest.mark.parametrize("topology", [t for t in every_topology() if t.cuts], ids=label)


class Doubled(Defense):
    """Doubles what is sent; honest backward passes must double the gradient."""

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        return message.carrying(message.tensor * 2) if message.kind == "smashed" else message


class Squared(Defense):
    """A penalty with a known gradient, and inputs that are halved first."""

    def inputs(self, batch, generator):
        return replace(batch, x=batch.x / 2)

    def penalty(self, x, z):
        return z.square().sum()


class Silence(Defense):
    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        return message.carrying(torch.zeros_like(message.tensor)) if message.kind == "smashed" else message


@dataclass(frozen=True)
class Counting(Defense):
    incoming_to: list[Party] = field(default_factory=list)
    sanitised: list[int] = field(default_factory=list)

    def incoming(self, message):
        assert message.receiver == client(self.context.client)
        self.incoming_to.append(message.receiver)
        return message

    def gradients(self, stage, generator):
        self.sanitised.append(id(stage))
        assert all(p.grad is not None for p in stage.parameters())


@each
def test_cutting_the_network_changes_nothing(topology: Topology):
    net = network()
    value, expected, buffers = whole(net, batch())
    split = scene(topology, 1, net)
    assert split.step() == pytest.approx(value, abs=1e-12)
    assert_close(gradients(net), expected, rtol=0, atol=1e-12)
    assert_close(dict(net.named_buffers()), buffers, rtol=0, atol=1e-12)
    assert_close(split.models[0].joined(batch().x), net(batch().x), rtol=0, atol=1e-12)


@each
def test_a_whole_training_of_one_client_is_that_of_the_uncut_network(topology: Topology):
    net, oracle = network(), network()
    split = scene(topology, 1, net, sizes=[10], epochs=3)
    orders = torch.Generator().manual_seed(split.client(0).streams.of("order").initial_seed())
    split.train()
    descent = torch.optim.SGD(oracle.parameters(), lr=0.1)
    own = batch(0, 10)
    for _ in range(3):
        for rows in topology.rows(10, split.plan, orders):
            descent.zero_grad()
            F.cross_entropy(oracle(own.x[rows]), own.y[rows]).backward()
            descent.step()
    assert_close(dict(net.state_dict()), dict(oracle.state_dict()), rtol=0, atol=1e-12)


@each_with_a_cut
def test_the_penalty_and_the_transformed_inputs_reach_the_clients_layers(topology: Topology):
    net, oracle = network(), network()
    scene(topology, 1, net, Squared()).step()
    z = oracle[:BOTTOM](batch().x / 2)
    (F.cross_entropy(oracle[BOTTOM:](z.clone()), batch().y) + z.square().sum()).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-11)


@each_with_a_cut
def test_what_a_defense_does_to_the_smashed_data_is_differentiated_through(topology: Topology):
    net, oracle = network(), network()
    scene(topology, 1, net, Doubled()).step()
    F.cross_entropy(oracle[BOTTOM:](oracle[:BOTTOM](batch().x) * 2), batch().y).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-12)


@each_with_a_cut
def test_a_client_that_sends_nothing_of_its_own_asks_for_no_gradient_and_keeps_its_first_layers(topology: Topology):
    net, wire = network(), Wire()
    scene(topology, 1, net, Silence()).step(wire)
    assert net.first.weight.grad is None
    assert net.second.weight.grad is not None
    assert wire.bytes(sender="server", kind="gradient") == 0


@each_with_a_cut
def test_frozen_client_layers_are_sent_no_gradient(topology: Topology):
    def gradients_down(frozen: bool) -> int:
        net, wire = network(), Wire()
        net[:BOTTOM].requires_grad_(not frozen)
        scene(topology, 1, net).step(wire)
        assert net.second.weight.grad is not None
        return wire.bytes(sender="server", receiver="client", kind="gradient")

    assert gradients_down(frozen=True) == 0
    assert gradients_down(frozen=False) == 6 * 4 * 8 * 8 * 8


@each
def test_a_member_that_is_frozen_takes_part_and_is_left_as_it_was(topology: Topology):
    split = scene(topology, 2)
    before = {party: state(member.stages) for party, member in split.members.items()}
    moving = {name for name, _ in network().named_buffers()}
    for member in split.members.values():
        member.frozen = True
    wire = split.train(Wire())
    for party, member in split.members.items():
        assert not any(p.grad is not None for stage in member.stages for p in stage.parameters())
        kept = {name: value for name, value in state(member.stages).items() if name not in moving}
        expected = {name: value for name, value in before[party].items() if name not in moving}
        # Averaging and handing on round: equal weights stay equal up to that.
        assert_close(kept, expected, rtol=0, atol=1e-15)
    assert bool(wire.traffic) == bool(topology.cuts)


@each
def test_the_client_sees_every_message_to_it_and_sanitises_each_of_its_stages_once(topology: Topology):
    defense = Counting()
    split = scene(topology, 2, defense=defense)
    wire = Wire(record=True)
    split.step(wire)
    assert sorted(defense.incoming_to) == sorted(m.receiver for m in wire.transcript if m.receiver.role == "client")
    stages = [id(stage) for index in range(2) for stage in split.client(index).stages]
    assert sorted(defense.sanitised) == sorted(stages)


@each_with_a_cut
def test_only_protected_clients_defend(topology: Topology):
    wire = Wire(record=True)
    scene(topology, 2, defense=Silence(), protected=1).step(wire)
    first, second = (m.tensor for m in wire.transcript if m.kind == "smashed" and m.sender.role == "client")
    assert not first.any()
    assert_close(second, network()[:BOTTOM](batch(1).x).detach(), rtol=0, atol=1e-12)


@each
def test_labels_cross_only_where_the_topology_says_so(topology: Topology):
    wire = Wire(record=True)
    scene(topology, 2).step(wire)
    sent = [m for m in wire.transcript if m.kind == "label"]
    assert [m.tensor.tolist() for m in sent] == [batch(i).y.tolist() for i in range(2 * topology.shares_labels)]
    assert wire.bytes(kind="label") == 2 * topology.shares_labels * 6 * 8


@each
def test_messages_name_their_rows_their_client_their_step_and_their_round(topology: Topology):
    wire = Wire(record=True)
    split = scene(topology, 2)
    split.train(wire)
    for message in wire.transcript:
        party = message.sender if message.sender.role == "client" else message.receiver
        if message.kind == "weights":
            assert message.about is None
            continue
        assert message.about is not None
        assert not message.about.mixes
        assert message.about.owners.unique().tolist() == [party.index]
        assert (message.about.samples // ROW).unique().tolist() == [party.index]
        assert len(message.about) == len(message.tensor)
        assert message.step // 2 == message.round  # two steps per epoch for each of them
        assert message.seen().about is None


@each
def test_the_bytes_counted_are_the_sizes_of_the_tensors(topology: Topology):
    wire, split = Wire(), scene(topology, 1)
    split.client(0).epoch = 3
    split.step(wire)
    smashed, features = 6 * 4 * 8 * 8 * 8, 6 * 5 * 1 * 1 * 8
    up, down = (client(0), SERVER), (SERVER, client(0))
    one_cut = {(3, *up, "smashed"): smashed, (3, *down, "gradient"): smashed, (3, *up, "label"): 6 * 8}
    two_cuts = {
        (3, *up, "smashed"): smashed,
        (3, *down, "smashed"): features,
        (3, *up, "gradient"): features,
        (3, *down, "gradient"): smashed,
    }
    assert dict(wire.traffic) == {0: {}, 1: one_cut, 2: two_cuts}[topology.cuts]


@each
def test_each_client_owns_its_layers_and_all_begin_with_equal_weights(topology: Topology):
    split = scene(topology, 3)
    owned = [{id(p) for s in member.stages for p in s.parameters()} for member in split.members.values()]
    assert sum(map(len, owned)) == len(set().union(*owned))
    for index in range(3):
        assert_close(state(split.client(index).stages), state(split.client(0).stages), rtol=0, atol=0)
    for index, model in enumerate(split.models):
        assert [owner.role for owner in model.owners] == ["client", "server", "client"][: topology.cuts + 1]
        assert {owner.index for owner in model.owners if owner.role == "client"} == {index}
        assert_close(model.joined(batch().x), split.models[0].joined(batch().x))


@each
def test_nobody_shares_a_defense_or_random_numbers(topology: Topology):
    split = scene(topology, 3, defense=Counting())
    clients = [split.client(index) for index in range(3)]
    assert [me.defense.context.client for me in clients] == [0, 1, 2]
    assert len({me.defense.context.secret for me in clients}) == 3
    assert len({id(member.streams) for member in split.members.values()}) == 4
    assert len({member.streams.seed for member in split.members.values()}) == 4


@each
def test_every_client_is_trained_in_every_epoch_on_all_of_its_samples(topology: Topology):
    plan = Plan((5, 9, 2), 4)
    for size in plan.sizes:
        rows = torch.cat(topology.rows(size, plan, torch.Generator().manual_seed(0)))
        assert sorted(set(rows.tolist())) == list(range(size))


@each
def test_the_order_of_samples_follows_the_generator(topology: Topology):
    def order(seed: int) -> list[list[int]]:
        rows = topology.rows(20, Plan((20, 30), 8), torch.Generator().manual_seed(seed))
        return [own.tolist() for own in rows]

    assert order(0) == order(0) != order(1)


@each
def test_every_epoch_has_an_order_of_its_own(topology: Topology):
    heard: dict[int, list[int]] = {0: [], 1: []}
    split = scene(topology, sizes=[12], epochs=2)
    load, me = split.client(0).load, split.client(0)
    me.load = lambda rows: heard[me.epoch].extend(rows.tolist()) or load(rows)
    split.train()
    assert sorted(heard[0]) == sorted(heard[1]) == list(range(12))
    assert heard[0] != heard[1]


@each
@pytest.mark.parametrize("sizes", [(6,), (5, 9, 2), (4, 4)])
def test_everybody_takes_as_many_steps_as_the_topology_said(topology: Topology, sizes: tuple[int, ...]):
    split = scene(topology, sizes=sizes, epochs=2)
    split.train()
    for party, member in split.members.items():
        if member.stages:
            assert member.step == 2 * topology.steps(split.plan, party)
    computed = [len(losses) for member in split.members.values() for losses in member.losses]
    assert sum(computed) == 2 * topology.steps(split.plan)


@each
def test_a_client_without_samples_is_refused(topology: Topology):
    with pytest.raises(SplitbenchError, match="no samples for client 1 of 3"):
        topology.rows(5, Plan((5, 0, 2), 4), torch.Generator())


@each
def test_clients_end_a_training_with_the_same_layers_exactly_where_the_topology_says_so(topology: Topology):
    split = scene(topology, 2)
    split.train()
    first, second = (state(split.client(index).stages) for index in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first) == topology.together


@each
def test_an_honest_listener_and_a_record_change_no_bit_of_a_training(topology: Topology):
    def run(wire: Wire) -> list[dict[str, torch.Tensor]]:
        split = scene(topology, 2, network(dropout=0.3))
        split.train(wire)
        return [state(member.stages) for member in split.members.values()]

    def draws(message: Message) -> None:
        message.tensor.zero_()
        torch.rand(3, generator=torch.Generator())

    assert_close(run(Wire()), run(Wire(record=True, listeners=[draws])), rtol=0, atol=0)


@each
def test_a_training_repeats_itself(topology: Topology):
    def run() -> list[dict[str, torch.Tensor]]:
        torch.rand(5)  # whatever happened before
        split = scene(topology, 2, network(dropout=0.3))
        split.train()
        return [state(member.stages) for member in split.members.values()]

    assert_close(run(), run(), rtol=0, atol=0)


@pytest.mark.parametrize("name", names("topologies"))
def test_it_says_what_it_does_and_explains_its_settings(name: str):
    text, settings = describe("topologies", name)
    assert text.partition("\n")[0].endswith(".")
    assert [s.name for s in settings if not (s.default and s.note)] == []
