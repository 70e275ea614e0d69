"""A second client changes nothing of what the first one draws, computes or sends."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from splitbench.core.party import SERVER, client
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from splitbench.defenses.gaussian import Gaussian
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.standalone import Standalone
from tests.topologies._small import BOTTOM, every_topology, label, network, scene, state

each = pytest.mark.parametrize("topology", every_topology(), ids=label)
apart = pytest.mark.parametrize("topology", [Parallel(), Standalone()], ids=label)
more = pytest.mark.parametrize("clients", [2, 3])


def no_gradient(message):
    """A server that returns zeros: whatever it learns of others does not come back."""
    return message.carrying(torch.zeros_like(message.tensor)) if message.kind == "gradient" else message


def run(topology: Topology, clients: int, *, frozen: bool = False, tamper=None):
    """Dropout in the client's layers, noise on what it sends, batches shuffled; the first client's part of it."""
    net = network(dropout=0.4)
    if frozen:
        net[:BOTTOM].requires_grad_(False)
    split = scene(topology, clients, net, Gaussian(0.3), batch=4, epochs=3, sizes=(10, 9, 7)[:clients])
    me, served, orders = split.client(0), [], []
    load = me.load

    def watched(rows):
        orders.append(rows.tolist())
        batch = load(rows)
        served.append((batch.x, batch.y, batch.about.samples))
        return batch

    me.load = watched
    wire = split.train(Wire(record=True, tamper=tamper))
    sent = [m for m in wire.transcript if m.sender == client(0) and m.kind != "weights"]
    return split, orders, served, sent


@each
@more
def test_the_first_clients_orders_and_batches_stay_as_they_were(topology: Topology, clients: int):
    _, alone, batches, _ = run(topology, 1)
    _, beside, same, _ = run(topology, clients)
    assert alone == beside
    assert_close(same, batches, rtol=0, atol=0)


@apart
@more
@pytest.mark.parametrize("how", [{"tamper": no_gradient}, {"frozen": True}], ids=["no gradient", "frozen"])
def test_every_message_of_a_training_stays_bit_for_bit_as_it_was(topology: Topology, clients: int, how):
    split, _, _, alone = run(topology, 1, **how)
    other, _, _, beside = run(topology, clients, **how)
    assert len(alone) == len(beside)
    assert bool(alone) == bool(topology.cuts)
    for one, same in zip(alone, beside, strict=True):
        assert (one.kind, one.step, one.round, one.receiver) == (same.kind, same.step, same.round, same.receiver)
        assert torch.equal(one.tensor, same.tensor)
        assert torch.equal(one.about.samples, same.about.samples)
    if topology.cuts:
        mine, theirs = state(split.client(0).stages), state(other.client(0).stages)
        assert_close(mine, theirs, rtol=0, atol=0)


@more
def test_standing_alone_a_client_ends_with_the_same_weights_whoever_else_there_is(clients: int):
    mine, theirs = (state(run(Standalone(), count)[0].client(0).stages) for count in (1, clients))
    assert_close(mine, theirs, rtol=0, atol=0)


def test_a_gradient_is_about_ones_own_loss_whoever_else_is_in_the_step():
    def sent(clients: int):
        split = scene(Parallel(), clients, network(dropout=0.4), Gaussian(0.3), epochs=3)
        split.members[SERVER].frozen = True  # what others teach the server would come back
        wire = split.train(Wire(record=True))
        return [m.tensor for m in wire.transcript if m.kind != "label" and client(0) in (m.sender, m.receiver)]

    assert_close(sent(3), sent(1), rtol=0, atol=1e-12)


@each
def test_clients_with_the_same_samples_draw_differently(topology: Topology):
    split = scene(topology, 2, network(dropout=0.4), Gaussian(0.3))
    first, second = split.client(0), split.client(1)
    x = torch.ones(3, 2, 8, 8, dtype=torch.float64)
    outputs = []
    for me in (first, second, first):
        with me.at_work():
            outputs.append(network(dropout=0.4).train()[:2](x))
    assert not torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2]), "it goes on where it was"
    noise = [torch.rand(4, generator=me.noise).tolist() for me in (first, second)]
    orders = [torch.randperm(50, generator=me.streams.of("order")).tolist() for me in (first, second)]
    assert noise[0] != noise[1]
    assert orders[0] != orders[1]


@each
def test_the_global_random_numbers_are_left_as_they_were_and_decide_nothing(topology: Topology):
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        split, *_ = run(topology, 2)
        assert torch.equal(torch.random.get_rng_state(), before)
        found.append([state(member.stages) for member in split.members.values()])
    assert_close(found[0], found[1], rtol=0, atol=0)
