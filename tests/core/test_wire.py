from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.message import Message
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.wire import Wire


def up(tensor, index=0, kind="smashed", turn=0):
    return Message(client(index), SERVER, kind, tensor, round=turn)


def down(tensor, index=0, kind="gradient", turn=0):
    return Message(SERVER, client(index), kind, tensor, round=turn)


def test_what_arrives_is_outside_the_senders_graph():
    w = torch.ones(3, requires_grad=True)
    sent = up(w * 2)
    arrived = Wire().carry(sent)
    assert arrived.tensor.grad_fn is None
    (arrived.tensor * 5).sum().backward()
    assert w.grad is None
    sent.tensor.backward(arrived.tensor.grad)
    assert torch.equal(w.grad, torch.full((3,), 10.0))


@pytest.mark.parametrize(("kind", "wants"), [("smashed", True), ("gradient", False), ("label", False), ("weights", 0)])
def test_only_smashed_data_arrives_as_a_leaf_that_wants_a_gradient(kind, wants):
    arrived = Wire().carry(up(torch.ones(3, requires_grad=True) * 2, kind=kind)).tensor
    assert arrived.is_leaf
    assert arrived.requires_grad == wants


def test_tokens_may_be_smashed_data():
    assert not Wire().carry(up(torch.arange(3))).tensor.requires_grad


def test_the_features_a_server_sends_down_want_a_gradient_too():
    assert Wire().carry(down(torch.ones(3), kind="smashed")).tensor.requires_grad


def test_nothing_but_the_tensor_is_changed():
    message = Message(client(1), SERVER, "smashed", torch.ones(3), 2, 7, 4, 0.25, True)
    arrived = Wire().carry(message)
    assert arrived.carrying(message.tensor) == message


def test_nothing_is_recorded_unless_asked():
    wire = Wire()
    wire.carry(up(torch.ones(3)))
    assert wire.transcript == []


def test_the_record_does_not_change_with_what_it_is_a_record_of():
    wire, sent = Wire(record=True), torch.ones(3)
    arrived = wire.carry(up(sent)).tensor
    with torch.no_grad():
        arrived.zero_()
        sent.fill_(5)
    assert [m.tensor.tolist() for m in wire.transcript] == [[1.0] * 3]
    assert not wire.transcript[0].tensor.requires_grad


def test_listeners_hear_every_message_outside_every_graph():
    heard = []
    wire = Wire(listeners=[heard.append, heard.append])
    wire.carry(up(torch.ones(3, requires_grad=True) * 2))
    wire.carry(down(torch.ones(3)))
    assert [m.tensor.tolist() for m in heard] == [[2.0] * 3] * 2 + [[1.0] * 3] * 2
    assert not any(m.tensor.requires_grad or m.tensor.grad_fn is not None for m in heard)


def test_a_listener_can_change_neither_what_arrives_nor_what_was_sent_nor_the_record_nor_what_others_hear():
    heard = []
    wire = Wire(record=True, listeners=[lambda m: m.tensor.zero_(), heard.append])
    sent = torch.ones(3)
    arrived = wire.carry(up(sent)).tensor
    for tensor in (sent, arrived.detach(), wire.transcript[0].tensor, heard[0].tensor):
        assert torch.equal(tensor, torch.ones(3))


def test_what_a_listener_returns_is_not_looked_at():
    wire = Wire(listeners=[lambda m: m.carrying(m.tensor * 0)])
    assert torch.equal(wire.carry(down(torch.ones(3))).tensor, torch.ones(3))


MESSAGES = [
    Message(sender, receiver, "gradient", torch.ones(3))
    for sender, receiver in [
        (SERVER, client(0)),
        (SERVER, MIXER),
        (MIXER, client(0)),
        (MIXER, SERVER),
        (client(0), SERVER),
        (client(1), client(0)),
    ]
]


@pytest.mark.parametrize("tamperer", [SERVER, MIXER, client(0), client(1)], ids=str)
def test_a_tampering_party_changes_what_it_sends_itself_and_nothing_else(tamperer):
    wire = Wire(tamper=lambda m: m.carrying(m.tensor + 7), tamperer=tamperer, record=True)
    for message in MESSAGES:
        expected = torch.full((3,), 8.0 if message.sender == tamperer else 1.0)
        assert torch.equal(wire.carry(message).tensor, expected)
        assert torch.equal(wire.transcript[-1].tensor, expected)
        assert torch.equal(message.tensor, torch.ones(3))


def test_it_is_the_server_that_tampers_unless_said_otherwise():
    wire = Wire(tamper=lambda m: m.carrying(m.tensor + 7))
    assert [wire.carry(m).tensor[0].item() for m in MESSAGES] == [8, 8, 1, 1, 1, 1]


def test_what_is_counted_and_heard_is_what_the_tamperer_sent():
    heard = []
    wire = Wire(tamper=lambda m: m.carrying(torch.zeros(9)), listeners=[heard.append])
    wire.carry(down(torch.ones(3)))
    assert wire.bytes() == 9 * 4
    assert torch.equal(heard[0].tensor, torch.zeros(9))


def test_a_tamperers_tensor_comes_without_its_graph():
    w = torch.ones(3, requires_grad=True)
    wire = Wire(tamper=lambda m: m.carrying(w * 2))
    assert wire.carry(down(torch.ones(3))).tensor.grad_fn is None


parties = st.sampled_from([client(0), client(1), client(2), SERVER, MIXER])
messages = st.lists(
    st.tuples(
        parties,
        parties,
        st.sampled_from(["smashed", "gradient", "label", "weights"]),
        st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]),
        st.lists(st.integers(0, 4), max_size=3),
        st.integers(0, 2),
    )
)


@given(messages)
def test_bytes_are_counted_by_round_sender_receiver_and_kind(messages):
    wire = Wire()
    expected: dict[tuple, int] = {}
    for sender, receiver, kind, dtype, shape, turn in messages:
        tensor = torch.zeros(shape, dtype=dtype)
        wire.carry(Message(sender, receiver, kind, tensor, round=turn))
        key = (turn, sender, receiver, kind)
        expected[key] = expected.get(key, 0) + math.prod(shape) * dtype.itemsize
    assert dict(wire.traffic) == expected
    assert wire.bytes() == sum(expected.values())
    assert wire.bytes(kind="label") == sum(n for key, n in expected.items() if key[3] == "label")
    assert wire.up == sum(n for (_, a, _, _), n in expected.items() if a.role == "client")
    assert wire.down == sum(
        n for (_, a, b, _), n in expected.items() if a.role in ("server", "mixer") and b.role == "client"
    )
