from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from splitbench.core.errors import SplitbenchError
from splitbench.core.party import SERVER
from splitbench.core.wire import Wire
from splitbench.topologies.u_shaped import UShaped
from tests.topologies._small import BOTTOM, CUTS, TAIL, batch, gradients, network, scene, state


def test_the_second_cut_is_the_last_place_unless_said_otherwise():
    assert UShaped().places("norm", CUTS) == ("norm", "pool")
    assert UShaped(tail="second").places("norm", CUTS) == ("norm", "second")
    assert UShaped(tail="group").places("norm", CUTS) == ("norm", "group")


@pytest.mark.parametrize(("cut", "tail"), [("pool", ""), ("second", "norm"), ("second", "second")])
def test_a_second_cut_that_does_not_come_after_the_first_is_refused(cut, tail):
    with pytest.raises(SplitbenchError, match="does not come after") as error:
        UShaped(tail=tail).places(cut, CUTS)
    assert "norm, second" in str(error.value) or "later tail" in str(error.value)


def test_messages_go_up_and_down_in_the_order_of_the_protocol():
    wire = Wire(record=True)
    scene(UShaped()).step(wire)
    assert [(m.kind, m.cut, m.sender.role) for m in wire.transcript] == [
        ("smashed", 0, "client"),
        ("smashed", 1, "server"),
        ("gradient", 1, "client"),
        ("gradient", 0, "server"),
    ]


def test_a_tampering_server_can_change_its_features_and_its_gradient():
    net, oracle = network(), network()
    scene(UShaped(), net=net).step(Wire(tamper=lambda m: m.carrying(m.tensor * 2)))
    z = oracle[:BOTTOM](batch().x)
    z.register_hook(lambda slope: slope * 2)
    features = oracle[BOTTOM:TAIL](z.clone())
    seen = (features * 2).detach().requires_grad_()
    F.cross_entropy(oracle[TAIL:](seen), batch().y).backward()
    features.backward(seen.grad)  # the server's own graph knows nothing of the factor
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-12)


def test_features_made_up_by_the_server_reach_the_client_and_both_still_learn():
    made_up = torch.ones(6, 5, 1, 1, dtype=torch.float64)

    def tamper(message):
        return message.carrying(made_up if message.kind == "smashed" else torch.ones_like(message.tensor))

    net, oracle = network(), network()
    value = scene(UShaped(), net=net).step(Wire(tamper=tamper))
    assert value == pytest.approx(F.cross_entropy(oracle[TAIL:](made_up), batch().y).item(), abs=1e-12)
    oracle[:BOTTOM](batch().x).sum().backward()
    assert_close(net.first.bias.grad, oracle.first.bias.grad, rtol=0, atol=1e-10)
    assert net.second.weight.grad is not None


def test_a_whole_training_goes_through_with_a_server_that_replaces_its_features():
    def tamper(message):
        return message.carrying(torch.randn_like(message.tensor)) if message.kind == "smashed" else message

    split = scene(UShaped(), 2, epochs=3)
    before = {party: state(member.stages) for party, member in split.members.items()}
    split.train(Wire(tamper=tamper))
    for party, member in split.members.items():
        after = state(member.stages)
        assert all(bool(value.isfinite().all()) for value in after.values())
        assert any(not torch.equal(after[name], before[party][name]) for name in after)


def test_a_frozen_end_is_trained_by_nobody_while_the_other_learns():
    net, wire = network(), Wire()
    net[:BOTTOM].requires_grad_(False)
    before = state([net])
    scene(UShaped(), 1, net, epochs=1).train(wire)
    moved = {name.split(".")[0] for name, value in state([net]).items() if not torch.equal(value, before[name])}
    assert moved == {"norm", "second", "group", "head"}  # norm: its statistics, which need no gradient
    assert wire.bytes(sender="server", receiver="client", kind="gradient") == 0
    assert wire.bytes(sender="client", receiver="server", kind="gradient") == 6 * 5 * 8


def test_the_server_never_sees_a_label():
    split, wire = scene(UShaped(), 2), Wire(record=True)
    split.train(wire)
    assert not [m for m in wire.transcript if m.receiver == SERVER and not m.tensor.is_floating_point()]
    assert not [loss for losses in split.members[SERVER].losses for loss in losses]
