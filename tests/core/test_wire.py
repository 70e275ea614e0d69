from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.defense import Composed, Defense
from splitbench.core.errors import CellError
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.wire import Message, Wire


@dataclass(frozen=True)
class Times(Defense):
    factor: float

    def outgoing(self, message, generator):
        return message.carrying(message.tensor * self.factor)

    def incoming(self, message):
        return message.carrying(message.tensor / self.factor)


@dataclass(frozen=True)
class Plus(Defense):
    term: float

    def outgoing(self, message, generator):
        return message.carrying(message.tensor + self.term)

    def incoming(self, message):
        return message.carrying(message.tensor - self.term)


def up(tensor, index=0, kind="smashed"):
    return Message(0, client(index), SERVER, kind, 0, tensor)


def down(tensor, index=0, kind="gradient"):
    return Message(0, SERVER, client(index), kind, 0, tensor)


def test_sending_cuts_the_graph():
    w = torch.ones(3, requires_grad=True)
    sent, received = Wire().send(up(w * 2))
    (received * 5).sum().backward()
    assert w.grad is None
    sent.backward(received.grad)
    assert torch.equal(w.grad, torch.full((3,), 10.0))


@pytest.mark.parametrize(("kind", "wants"), [("smashed", True), ("gradient", False), ("label", False)])
def test_only_smashed_data_arrives_as_a_leaf_that_wants_a_gradient(kind, wants):
    _, received = Wire().send(up(torch.ones(3, requires_grad=True) * 2, kind=kind))
    assert received.is_leaf
    assert received.requires_grad == wants


def test_tokens_may_be_smashed_data():
    assert not Wire().send(up(torch.arange(3))).received.requires_grad


def test_the_features_a_server_sends_down_want_a_gradient_too():
    assert Wire().send(down(torch.ones(3), kind="smashed")).received.requires_grad


def test_what_a_defense_does_on_the_way_out_is_differentiated_through():
    w = torch.ones(3, requires_grad=True)
    sent, received = Wire(Times(4.0)).send(up(w))
    assert torch.equal(received.detach(), torch.full((3,), 4.0))
    sent.backward(torch.ones(3))
    assert torch.equal(w.grad, torch.full((3,), 4.0))


def test_nothing_is_recorded_unless_asked():
    wire = Wire()
    wire.send(up(torch.ones(3)))
    assert wire.transcript == []


def test_the_record_is_of_the_defended_tensor_and_does_not_change_with_it():
    wire = Wire(Times(2.0), record=True)
    received = wire.send(up(torch.ones(3))).received
    with torch.no_grad():
        received.zero_()
    assert [m.tensor.tolist() for m in wire.transcript] == [[2.0] * 3]


def test_listeners_hear_the_defended_tensor_outside_every_graph():
    heard = []
    wire = Wire(Times(2.0), listeners=[heard.append, heard.append])
    wire.send(up(torch.ones(3, requires_grad=True)))
    assert [m.tensor.tolist() for m in heard] == [[2.0] * 3] * 2
    assert not any(m.tensor.requires_grad for m in heard)


def test_listeners_hear_what_the_server_sent_before_the_client_looks_at_it():
    heard = []
    received = Wire(Times(2.0), listeners=[heard.append]).send(down(torch.ones(3))).received
    assert torch.equal(heard[0].tensor, torch.ones(3))
    assert torch.equal(received, torch.full((3,), 0.5))


def test_a_tampering_server_changes_what_it_sends_and_nothing_else():
    wire = Wire(tamper=lambda m: m.carrying(m.tensor + 7), record=True)
    assert torch.equal(wire.send(down(torch.ones(3))).received, torch.full((3,), 8.0))
    assert torch.equal(wire.send(up(torch.ones(3))).received.detach(), torch.ones(3))
    assert torch.equal(wire.send(Message(0, MIXER, client(0), "gradient", 0, torch.ones(3))).received, torch.ones(3))
    assert wire.transcript[0].tensor.tolist() == [8.0] * 3


def test_the_clients_defense_touches_only_what_clients_send_and_receive():
    wire = Wire(Times(2.0))
    between = Message(0, MIXER, SERVER, "smashed", 0, torch.ones(3))
    assert torch.equal(wire.send(between).received.detach(), torch.ones(3))
    assert torch.equal(wire.send(Message(0, SERVER, MIXER, "gradient", 0, torch.ones(3))).received, torch.ones(3))


def test_a_client_can_leave_the_protocol():
    class Suspicious(Defense):
        def incoming(self, message):
            raise CellError("the gradient is not one")

    wire = Wire(Suspicious())
    wire.send(up(torch.ones(3)))
    with pytest.raises(CellError, match="not one"):
        wire.send(down(torch.ones(3)))


sizes = st.lists(
    st.tuples(
        st.sampled_from(["smashed", "gradient", "label", "weights"]),
        st.sampled_from([torch.float32, torch.float64, torch.int64, torch.uint8]),
        st.lists(st.integers(0, 4), max_size=3),
        st.booleans(),
        st.integers(0, 2),
    )
)


@given(sizes)
def test_bytes_are_counted_by_round_direction_and_kind(messages):
    wire = Wire()
    expected: dict[tuple, int] = {}
    for kind, dtype, shape, upward, turn in messages:
        wire.round = turn
        tensor = torch.zeros(shape, dtype=dtype)
        wire.send(up(tensor, kind=kind) if upward else down(tensor, kind=kind))
        key = (turn, *(("client", "server") if upward else ("server", "client")), kind)
        expected[key] = expected.get(key, 0) + len(tensor.numpy().tobytes())
    assert dict(wire.traffic) == expected
    assert wire.bytes() == sum(expected.values())
    assert wire.bytes(sender="client") == sum(n for key, n in expected.items() if key[1] == "client")
    assert wire.bytes(kind="label") == sum(n for key, n in expected.items() if key[3] == "label")


def test_several_defenses_apply_in_the_order_written_and_undo_in_reverse():
    wire = Wire(Composed((Times(3.0), Plus(1.0))))
    assert wire.send(up(torch.ones(1))).received.item() == 1 * 3 + 1
    assert wire.send(down(torch.full((1,), 10.0))).received.item() == (10 - 1) / 3


def test_only_the_first_clients_are_protected_if_so_asked():
    wire = Wire(Composed((Times(3.0),), clients=2))
    assert [wire.send(up(torch.ones(1), i)).received.item() for i in range(4)] == [3, 3, 1, 1]
    assert [wire.send(down(torch.full((1,), 3.0), i)).received.item() for i in range(4)] == [1, 1, 3, 3]
    assert [type(wire.defense_of(client(i))) for i in (1, 2)] == [Composed, Defense]


def test_the_wire_remembers_which_client_spoke_last():
    wire = Wire()
    assert wire.speaker is None
    wire.send(up(torch.ones(1), 4))
    wire.send(down(torch.ones(1), 2))
    assert wire.speaker == client(4)
