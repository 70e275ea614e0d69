from __future__ import annotations

import torch
import torch.nn.functional as F
from _small import batch, lay_out, network
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.party import client
from splitbench.core.wire import Wire
from splitbench.topologies.u_shaped import UShaped
from splitbench.topologies.vanilla import Vanilla

WEIGHTS = (2 * 4 * 9 + 4 + 2 * 4 + 2 * 4) * 8 + 8  # conv, its bias, batch norm, its statistics and its count
HEAD = (5 * 3 + 3) * 8


def run(topology, turns, wire):
    models = lay_out(topology, network(), 1 + max(turns))
    for step, index in enumerate(turns):
        topology.exchange(models, [batch(index)], wire, F.cross_entropy, step, [])
    return [m for m in wire.transcript if m.kind == "weights"]


def test_weights_pass_on_when_the_turn_does():
    wire = Wire(record=True)
    handed = run(Vanilla(), [0, 0, 1, 1, 1, 2, 0], wire)
    passes = list(dict.fromkeys((m.step, m.sender, m.receiver) for m in handed))
    assert passes == [(2, client(0), client(1)), (5, client(1), client(2)), (6, client(2), client(0))]
    assert wire.bytes(kind="weights", sender="client") == wire.bytes(kind="weights") == 3 * WEIGHTS


def test_weights_pass_before_the_next_client_computes():
    wire = Wire(record=True)
    run(Vanilla(), [0, 1], wire)
    second = [m.kind for m in wire.transcript if m.step == 1]
    assert second == ["weights"] * 7 + ["smashed", "label", "gradient"]


def test_a_single_client_keeps_its_weights_to_itself():
    assert not run(Vanilla(), [0, 0, 0], Wire(record=True))


def test_a_u_passes_both_ends_on():
    wire = Wire(record=True)
    handed = run(UShaped(), [0, 1], wire)
    assert {m.cut for m in handed} == {0, 1}
    assert wire.bytes(kind="weights") == WEIGHTS + HEAD


def test_the_next_client_begins_with_what_arrived():
    class Zeroed(Defense):
        def outgoing(self, message, generator):
            return message.carrying(torch.zeros_like(message.tensor)) if message.kind == "weights" else message

    net = network()
    models = lay_out(Vanilla(), net, 2)
    wire = Wire(Zeroed(), record=True)
    for index in range(2):
        Vanilla().exchange(models, [batch(index)], wire, F.cross_entropy, index, [])
    assert not net.first.weight.any()
    smashed = [m.tensor for m in wire.transcript if m.kind == "smashed"]
    assert smashed[0].any()
    assert not smashed[1].any()


def test_an_epoch_of_turns_equals_training_the_uncut_network_on_the_same_batches():
    net, oracle = network(), network()
    models = lay_out(Vanilla(), net, 3)
    wire = Wire()
    ours, theirs = (torch.optim.SGD(n.parameters(), lr=0.1, momentum=0.9) for n in (net, oracle))
    for index in range(3):
        own = batch(index)
        ours.zero_grad()
        Vanilla().exchange(models, [own], wire, F.cross_entropy, index, [])
        ours.step()
        theirs.zero_grad()
        F.cross_entropy(oracle(own.x), own.y).backward()
        theirs.step()
    assert wire.bytes(kind="weights") == 2 * WEIGHTS
    assert_close(dict(net.state_dict()), dict(oracle.state_dict()), rtol=0, atol=1e-12)
