from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from _small import CUTS, batch, gradients, lay_out, network
from torch.testing import assert_close

from splitbench.core.errors import SplitbenchError
from splitbench.core.wire import Wire
from splitbench.topologies.u_shaped import UShaped


def exchange(net, wire):
    return UShaped().exchange(lay_out(UShaped(), net), [batch()], wire, F.cross_entropy, 0, [1.0])


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
    exchange(network(), wire)
    assert [(m.kind, m.cut, m.sender.role) for m in wire.transcript] == [
        ("smashed", 0, "client"),
        ("smashed", 1, "server"),
        ("gradient", 1, "client"),
        ("gradient", 0, "server"),
    ]


def test_a_tampering_server_can_change_its_features_and_its_gradient():
    def doubled(message):
        return message.carrying(message.tensor * 2)

    net, oracle = network(), network()
    exchange(net, Wire(tamper=doubled))
    z = oracle[:2](batch().x)
    z.register_hook(lambda slope: slope * 2)
    F.cross_entropy(oracle[6:](oracle[2:6](z.clone()) * 2), batch().y).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-12)


def test_features_made_up_by_the_server_reach_the_client_and_the_server_still_answers():
    made_up = torch.ones(6, 5, 1, 1, dtype=torch.float64)

    def tamper(message):
        return message.carrying(made_up if message.kind == "smashed" else torch.ones_like(message.tensor))

    net, oracle = network(), network()
    value = exchange(net, Wire(tamper=tamper))
    assert value == pytest.approx(F.cross_entropy(oracle[6:](made_up), batch().y).item(), abs=1e-12)
    oracle[:2](batch().x).sum().backward()
    assert_close(net.first.bias.grad, oracle.first.bias.grad, rtol=0, atol=1e-10)
    assert net.second.weight.grad is None
