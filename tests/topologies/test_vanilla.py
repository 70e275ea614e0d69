from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from splitbench.core.party import SERVER, client
from splitbench.core.wire import Wire
from splitbench.topologies.u_shaped import UShaped
from splitbench.topologies.vanilla import Vanilla
from tests.topologies._small import RATE, network, orders, samples, scene, state

WEIGHTS = (2 * 4 * 9 + 4 + 2 * 4 + 2 * 4) * 8 + 8  # conv, its bias, batch norm, its statistics and its count
HEAD = (5 * 3 + 3) * 8


def handed(topology, clients, epochs=1):
    wire = Wire(record=True)
    scene(topology, clients, epochs=epochs).train(wire)
    weights = [m for m in wire.transcript if m.kind == "weights"]
    return list(dict.fromkeys((m.round, m.sender.index, m.receiver.index) for m in weights)), wire


def test_weights_pass_on_when_the_turn_does_and_everybody_ends_with_the_last_ones():
    passes, wire = handed(Vanilla(), 3, epochs=2)
    first = [(0, 0, 1), (0, 1, 2), (0, 2, 0)]
    second = [(1, 0, 1), (1, 1, 2), (1, 2, 0), (1, 2, 1)]
    assert passes == first + second
    assert wire.bytes(kind="weights", sender="client", receiver="client") == 7 * WEIGHTS
    assert wire.bytes(kind="weights") == 7 * WEIGHTS


def test_a_client_waits_for_the_weights_of_the_one_before():
    _, wire = handed(Vanilla(), 2)
    second = [m for m in wire.transcript if client(1) in (m.sender, m.receiver)]
    assert [m.kind for m in second[:10]] == ["weights"] * 7 + ["smashed", "label", "gradient"]


def test_a_single_client_keeps_its_weights_to_itself():
    assert handed(Vanilla(), 1, epochs=2)[0] == []


def test_a_u_passes_both_ends_on():
    _, wire = handed(UShaped(), 2)
    assert wire.bytes(kind="weights") == 2 * (WEIGHTS + HEAD)


def test_the_next_client_begins_with_what_arrived():
    def zeroed(message):
        return message.carrying(torch.zeros_like(message.tensor)) if message.kind == "weights" else message

    wire = Wire(record=True, tamper=zeroed, tamperer=client(0))
    scene(Vanilla(), 2, epochs=1).train(wire)
    own = {i: [m.tensor for m in wire.transcript if m.kind == "smashed" and m.sender == client(i)] for i in range(2)}
    assert all(tensor.any() for tensor in own[0])
    assert not own[1][0].any()


def test_turns_with_weights_handed_on_equal_training_the_uncut_network_on_the_same_batches():
    for topology in (Vanilla(), UShaped()):
        net, oracle = network(), network()
        split = scene(topology, net=net, sizes=[7, 10, 5], epochs=3)
        split.train()
        rows = [orders(topology, split.plan, index) for index in range(3)]
        descent = torch.optim.SGD(oracle.parameters(), lr=RATE)
        for epoch in range(3):
            for index, size in enumerate(split.plan.sizes):
                x, y = samples(index, size)
                for own in rows[index][epoch]:
                    descent.zero_grad()
                    F.cross_entropy(oracle(x[own]), y[own]).backward()
                    descent.step()
        for model in split.models:
            assert_close(state(model.stages), dict(oracle.state_dict()), rtol=0, atol=1e-12)


def test_the_exchange_is_three_messages():
    wire = Wire(record=True)
    scene(Vanilla()).step(wire)
    assert [(m.kind, m.sender, m.receiver) for m in wire.transcript] == [
        ("smashed", client(0), SERVER),
        ("label", client(0), SERVER),
        ("gradient", SERVER, client(0)),
    ]
