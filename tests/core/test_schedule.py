from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

from splitbench.core.errors import SplitbenchError
from splitbench.core.message import Message
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.schedule import Receive, Send, alone, together
from splitbench.core.wire import Wire

A, B = client(0), client(1)


def letter(sender, receiver, value, kind="smashed", cut=0):
    return Send(Message(sender, receiver, kind, torch.tensor([float(value)]), cut))


def value(message):
    return message.tensor.item()


def test_programs_take_turns_and_their_results_come_back():
    def asks():
        yield letter(A, SERVER, 3)
        return value((yield Receive(SERVER, "gradient")))

    def answers():
        question = yield Receive(A, "smashed")
        yield letter(SERVER, A, 10 * value(question), "gradient")
        return "done"

    for order in ((A, SERVER), (SERVER, A)):
        made = {A: asks(), SERVER: answers()}
        assert together({party: made[party] for party in order}, Wire()) == {A: 30.0, SERVER: "done"}


def test_messages_that_come_early_are_kept_in_their_order():
    def sends():
        for number in range(3):
            yield letter(A, SERVER, number)
        for number in range(3):
            yield letter(A, SERVER, 10 + number, "label")
        yield letter(A, SERVER, 100, cut=1)

    def receives():
        late = value((yield Receive(A, "smashed", cut=1)))
        labels = []
        for _ in range(3):
            labels.append(value((yield Receive(A, "label"))))
        smashed = []
        for _ in range(3):
            smashed.append(value((yield Receive(A, "smashed"))))
        return late, labels, smashed

    for order in ((A, SERVER), (SERVER, A)):
        made = {A: sends(), SERVER: receives()}
        results = together({party: made[party] for party in order}, Wire())
        assert results[SERVER] == (100, [10, 11, 12], [0, 1, 2])


def test_a_message_of_one_sender_is_not_taken_for_that_of_another():
    def sends(me, number):
        yield letter(me, SERVER, number)

    def receives():
        second = value((yield Receive(B, "smashed")))
        first = value((yield Receive(A, "smashed")))
        return first, second

    assert together({A: sends(A, 1), B: sends(B, 2), SERVER: receives()}, Wire())[SERVER] == (1, 2)


def test_programs_that_wait_for_each_other_are_reported_in_a_sentence():
    def waits(sender, kind):
        yield Receive(sender, kind)

    made = {A: waits(SERVER, "gradient"), SERVER: waits(MIXER, "smashed"), MIXER: waits(A, "label")}
    made[B] = (one for one in ())  # ends at once, and is not blamed
    with pytest.raises(SplitbenchError) as error:
        together(made, Wire())
    assert str(error.value) == (
        "the programs of this topology wait for each other for ever: client0 waits for gradient from server; "
        "server waits for smashed from mixer; mixer waits for label from client0"
    )


def test_who_waits_for_somebody_that_has_ended_is_reported_too():
    def waits():
        yield Receive(A, "smashed")

    with pytest.raises(SplitbenchError, match="server waits for smashed from client0"):
        together({A: (one for one in ()), SERVER: waits()}, Wire())


def test_a_message_of_another_kind_or_cut_does_not_end_a_wait():
    def sends():
        yield letter(A, SERVER, 1, "label")
        yield letter(A, SERVER, 1, cut=1)

    def waits():
        yield Receive(A, "smashed")

    with pytest.raises(SplitbenchError, match="server waits for smashed from client0"):
        together({A: sends(), SERVER: waits()}, Wire())


def test_everything_passes_the_wire():
    wire = Wire(record=True, tamper=lambda m: m.carrying(m.tensor + 1))

    def asks():
        yield letter(A, SERVER, 3)
        return value((yield Receive(SERVER, "gradient")))

    def answers():
        question = yield Receive(A, "smashed")
        assert question.tensor.requires_grad
        yield letter(SERVER, A, value(question), "gradient")

    assert together({A: asks(), SERVER: answers()}, wire)[A] == 4
    assert [(m.sender, value(m)) for m in wire.transcript] == [(A, 3), (SERVER, 4)]


def test_every_stretch_in_which_a_party_runs_is_surrounded():
    log = []

    @contextmanager
    def at_work(party):
        log.append(f"{party} begins")
        yield
        log.append(f"{party} rests")

    def asks():
        log.append("asks")
        yield letter(A, SERVER, 3)
        yield Receive(SERVER, "gradient")
        log.append("has its answer")

    def answers():
        yield Receive(A, "smashed")
        log.append("answers")
        yield letter(SERVER, A, 1, "gradient")

    together({A: asks(), SERVER: answers()}, Wire(), at_work)
    assert log == [
        *("client0 begins", "asks", "client0 rests"),
        *("server begins", "answers", "server rests"),
        *("client0 begins", "has its answer", "client0 rests"),
    ]


def test_an_error_of_one_program_is_everybodys_end_and_its_surroundings_are_left():
    left = []

    @contextmanager
    def at_work(party):
        try:
            yield
        finally:
            left.append(party)

    def fails():
        yield letter(A, SERVER, 1)
        raise ZeroDivisionError

    def waits():
        yield Receive(A, "smashed")

    with pytest.raises(ZeroDivisionError):
        together({A: fails(), SERVER: waits()}, Wire(), at_work)
    assert left == [A]


def test_a_program_alone_is_given_what_somebody_else_fetches():
    def asks():
        yield letter(A, SERVER, 3)
        yield letter(A, SERVER, 4, "label")
        return value((yield Receive(SERVER, "gradient", 1)))

    posted, wanted = [], []

    def fetch(wish):
        wanted.append(wish)
        return letter(SERVER, A, 12).message

    assert alone(asks(), posted.append, fetch) == 12
    assert [value(m) for m in posted] == [3, 4]
    assert wanted == [Receive(SERVER, "gradient", 1)]
