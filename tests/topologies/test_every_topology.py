"""What holds for each topology in the folder."""

from __future__ import annotations

import pytest
import torch
from _small import batch, every_topology, exchange, gradients, label, lay_out, network, whole
from torch import Generator
from torch.testing import assert_close

from splitbench.core.defense import Composed, Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import Party
from splitbench.core.registry import describe, names
from splitbench.core.topology import Topology
from splitbench.core.wire import Message, Wire

each = pytest.mark.parametrize("topology", every_topology(), ids=label)
each_with_a_cut = pytest.mark.parametrize("topology", [t for t in every_topology() if t.cuts], ids=label)


class Doubled(Defense):
    """Doubles what is sent; honest backward passes must double the gradient."""

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        return message.carrying(message.tensor * 2) if message.kind == "smashed" else message


class Squared(Defense):
    """A penalty with a known gradient, and inputs that are halved first."""

    def inputs(self, x, y, generator):
        return x / 2, y

    def penalty(self, x, z):
        return z.square().sum()


class Silence(Defense):
    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        return message.carrying(torch.zeros_like(message.tensor)) if message.kind == "smashed" else message


class Counting(Defense):
    def __init__(self) -> None:
        self.incoming_from: list[Party] = []
        self.sanitised: list[int] = []

    def incoming(self, message):
        self.incoming_from.append(message.receiver)
        return message

    def gradients(self, stage, generator):
        self.sanitised.append(id(stage))
        assert all(p.grad is not None for p in stage.parameters())


@each
def test_cutting_the_network_changes_nothing(topology: Topology):
    net = network()
    value, expected, buffers = whole(net, batch())
    models = lay_out(topology, net)
    before = models[0].joined(batch().x)
    assert_close(before, net(batch().x), rtol=0, atol=0)
    net.load_state_dict(network().state_dict())  # the two forward passes above moved the running statistics
    assert exchange(topology, models, [batch()], Wire()) == pytest.approx(value, abs=1e-12)
    assert_close(gradients(net), expected, rtol=0, atol=1e-12)
    assert_close(dict(net.named_buffers()), buffers, rtol=0, atol=1e-12)


@each_with_a_cut
def test_the_penalty_and_the_transformed_inputs_reach_the_clients_layers(topology: Topology):
    net, oracle = network(), network()
    exchange(topology, lay_out(topology, net), [batch()], Wire(Squared()))
    z = oracle[:2](batch().x / 2)
    (torch.nn.functional.cross_entropy(oracle[2:](z.clone()), batch().y) + z.square().sum()).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-11)


@each_with_a_cut
def test_what_a_defense_does_to_the_smashed_data_is_differentiated_through(topology: Topology):
    net, oracle = network(), network()
    exchange(topology, lay_out(topology, net), [batch()], Wire(Doubled()))
    torch.nn.functional.cross_entropy(oracle[2:](oracle[:2](batch().x) * 2), batch().y).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-12)


@each_with_a_cut
def test_a_client_that_sends_nothing_of_its_own_keeps_its_weights(topology: Topology):
    net = network()
    exchange(topology, lay_out(topology, net), [batch()], Wire(Silence()))
    assert net.first.weight.grad is None
    assert net.second.weight.grad is not None


@each_with_a_cut
def test_frozen_client_layers_are_sent_no_gradient(topology: Topology):
    net = network()
    net[:2].requires_grad_(False)
    wire = Wire(record=True)
    exchange(topology, lay_out(topology, net), [batch()], wire)
    assert not [m for m in wire.transcript if m.kind == "gradient" and m.receiver.role == "client"]
    assert net.second.weight.grad is not None


@each
def test_the_client_sees_every_message_to_it_and_sanitises_each_of_its_stages_once(topology: Topology):
    defense = Counting()
    models = lay_out(topology, network(), 2)
    wire = Wire(defense, record=True)
    exchange(topology, models, [batch(0), batch(1)], wire)
    assert defense.incoming_from == [m.receiver for m in wire.transcript if m.receiver.role == "client"]
    stages = [id(stage) for model in models for stage in model.owned_by("client")]
    assert sorted(defense.sanitised) == sorted(stages)


@each_with_a_cut
def test_only_protected_clients_defend(topology: Topology):
    wire = Wire(Composed((Silence(), Squared()), clients=1), record=True)
    exchange(topology, lay_out(topology, network(), 2), [batch(0), batch(1)], wire)
    first, second = (m.tensor for m in wire.transcript if m.kind == "smashed" and m.sender.role == "client")
    assert not first.any()
    assert_close(second, network()[:2](batch(1).x).detach(), rtol=0, atol=1e-12)


@each
def test_labels_cross_only_where_the_topology_says_so(topology: Topology):
    wire = Wire(record=True)
    exchange(topology, lay_out(topology, network(), 2), [batch(0), batch(1)], wire)
    sent = [m for m in wire.transcript if m.kind == "label"]
    assert [m.tensor.tolist() for m in sent] == [batch(i).y.tolist() for i in range(2 * topology.shares_labels)]
    assert wire.bytes(kind="label") == 2 * topology.shares_labels * 6 * 8


@each
def test_messages_name_their_rows_and_their_client(topology: Topology):
    wire = Wire(record=True)
    exchange(topology, lay_out(topology, network(), 2), [batch(0), batch(1)], wire)
    for message in wire.transcript:
        if message.kind != "weights":
            party = message.sender if message.sender.role == "client" else message.receiver
            assert torch.equal(message.samples, batch(party.index).samples)


@each
def test_the_bytes_counted_are_the_sizes_of_the_tensors(topology: Topology):
    wire = Wire(round=3)
    exchange(topology, lay_out(topology, network()), [batch()], wire)
    smashed, features = 6 * 4 * 8 * 8 * 8, 6 * 5 * 1 * 1 * 8
    up, down = ("client", "server"), ("server", "client")
    one_cut = {(3, *up, "smashed"): smashed, (3, *down, "gradient"): smashed, (3, *up, "label"): 6 * 8}
    two_cuts = {
        (3, *up, "smashed"): smashed,
        (3, *down, "smashed"): features,
        (3, *up, "gradient"): features,
        (3, *down, "gradient"): smashed,
    }
    assert dict(wire.traffic) == {0: {}, 1: one_cut, 2: two_cuts}[topology.cuts]


@each
def test_each_client_owns_its_layers_and_all_share_the_servers(topology: Topology):
    models = lay_out(topology, network(), 3)
    for index, model in enumerate(models):
        assert {owner.index for owner in model.owners if owner.role == "client"} == {index}
        assert [o.role for o in model.owners] == ["client", "server", "client"][: topology.cuts + 1]
        assert [id(s) for s in model.owned_by("server")] == [id(s) for s in models[0].owned_by("server")]
        assert_close(model.joined(batch().x), models[0].joined(batch().x))
    kept = {id(p) for model in models for s in model.owned_by("client") for p in s.parameters()}
    apart = topology.simultaneous or topology.cuts == 0
    assert len(kept) == (3 if apart else 1) * len([p for s in models[0].owned_by("client") for p in s.parameters()])


@each
def test_every_client_is_trained_in_every_epoch_on_all_of_its_samples(topology: Topology):
    steps = list(topology.steps([5, 9, 2], 4, torch.Generator().manual_seed(0)))
    seen = [torch.cat([rows for step in steps for client, rows in step if client == i]) for i in range(3)]
    assert [sorted(set(rows.tolist())) for rows in seen] == [list(range(size)) for size in (5, 9, 2)]


@each
def test_the_order_of_samples_follows_the_generator(topology: Topology):
    def order(seed: int) -> list[list[tuple[int, list[int]]]]:
        steps = topology.steps([20, 30], 8, torch.Generator().manual_seed(seed))
        return [[(client, rows.tolist()) for client, rows in step] for step in steps]

    assert order(0) == order(0) != order(1)


@each
def test_a_client_without_samples_is_refused(topology: Topology):
    with pytest.raises(SplitbenchError, match="no samples for client 1 of 3"):
        list(topology.steps([5, 0, 2], 4, torch.Generator()))


@each
def test_an_honest_listener_changes_nothing(topology: Topology):
    def run(listeners) -> dict[str, torch.Tensor]:
        net = network()
        exchange(topology, lay_out(topology, net, 2), [batch(0), batch(1)], Wire(record=True, listeners=listeners))
        return gradients(net)

    assert_close(run([]), run([lambda message: None]), rtol=0, atol=0)


@pytest.mark.parametrize("name", names("topologies"))
def test_it_says_what_it_does_and_explains_its_settings(name: str):
    text, settings = describe("topologies", name)
    assert text.partition("\n")[0].endswith(".")
    assert [s.name for s in settings if not (s.default and s.note)] == []
