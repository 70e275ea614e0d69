from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from splitbench.core.defense import Composed, Context, Defense, Turn
from splitbench.core.errors import CellError
from splitbench.core.member import Batch
from splitbench.core.message import About, Message
from splitbench.core.party import SERVER, client
from splitbench.core.randomness import generator
from splitbench.core.split import same_network


@dataclass(frozen=True)
class Marked(Defense):
    """Leaves its letter wherever it is called."""

    letter: str
    log: list[str]
    mixes: bool = False  # type: ignore[misc]

    def prepare(self, model):
        self.log.append(self.letter + " prepare")
        return model

    def inputs(self, batch, generator):
        self.log.append(self.letter + " inputs")
        return replace(batch, x=batch.x + 1)

    def penalty(self, x, z):
        return z.sum() if self.letter == "b" else None

    def groups(self, clients):
        return clients - 1

    def mix(self, smashed, labels, generator):
        self.log.append(self.letter + " mix")
        return smashed[1:], labels[1:]

    def gradients(self, stage, generator):
        self.log.append(self.letter + " gradients")

    def spent(self, turns):
        return {"epsilon": 1.5, self.letter: 1.0}


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


MESSAGE = Message(client(0), SERVER, "smashed", torch.ones(2))
BATCH = Batch(torch.zeros(1, 1), torch.zeros(1), About.plain(0, torch.arange(1)))


def test_the_baseline_changes_nothing():
    plain, z = Defense(), torch.ones(2)
    model = same_network([nn.Identity(), nn.Identity()])
    assert plain.prepare(model) is model
    assert plain.inputs(BATCH, None) is BATCH
    assert plain.penalty(z, z) is None
    assert plain.outgoing(MESSAGE, None) is plain.incoming(MESSAGE) is MESSAGE
    assert plain.mix([MESSAGE], [], None) == ([MESSAGE], [])
    assert plain.groups(5) == 5
    assert plain.spent([Turn(0, 0.1, 1, 10)]) == {}
    assert plain.sent(z, None) is z
    assert not plain.mixes
    assert not plain.disguises
    assert not Composed(()).disguises


def test_every_moment_passes_through_the_parts_in_order():
    log: list[str] = []
    both = Composed((Marked("a", log, True), Marked("b", log, True)))
    both.prepare(same_network([nn.Identity()]))
    batch = both.inputs(BATCH, None)
    smashed, _ = both.mix([MESSAGE] * 4, [MESSAGE] * 4, None)
    both.gradients(nn.Identity(), None)
    assert log == [f"{letter} {what}" for what in ("prepare", "inputs", "mix", "gradients") for letter in "ab"]
    assert batch.x.item() == 2
    assert len(smashed) == both.groups(4) == 2


def test_only_the_parts_that_mix_are_asked_to():
    log: list[str] = []
    both = Composed((Marked("a", log), Marked("b", log, True)))
    both.mix([MESSAGE] * 2, [MESSAGE] * 2, None)
    assert log == ["b mix"]
    assert both.groups(4) == 3


def test_several_apply_in_the_order_written_and_undo_in_reverse():
    both = Composed((Times(3.0), Plus(1.0)))
    assert both.sent(torch.ones(1), None).item() == 1 * 3 + 1
    returned = Message(SERVER, client(0), "gradient", torch.full((1,), 10.0))
    assert both.incoming(returned).tensor.item() == (10 - 1) / 3


def test_penalties_add_up_and_those_that_have_none_count_nothing():
    z = torch.ones(3)
    assert Composed((Marked("a", []),)).penalty(z, z) is None
    assert Composed((Marked("a", []), Marked("b", []), Marked("b", []))).penalty(z, z).item() == 6


def test_what_several_mechanisms_spend_adds_up():
    assert Composed((Marked("a", []), Marked("b", []))).spent([]) == {"epsilon": 3.0, "a": 1.0, "b": 1.0}


def test_one_part_that_mixes_is_enough_for_a_mixer():
    assert not Composed((Marked("a", []),)).mixes
    assert Composed((Marked("a", []), Marked("b", [], mixes=True))).mixes


def test_a_client_can_leave_the_protocol():
    class Suspicious(Defense):
        def incoming(self, message):
            raise CellError("the gradient is not one")

    with pytest.raises(CellError, match="not one"):
        Composed((Times(2.0), Suspicious())).incoming(MESSAGE)


def test_a_bound_defense_is_another_one_and_leaves_the_first_as_it_was():
    plain = Times(2.0)
    first, second = (plain.bind(Context(client=i, secret=i + 5)) for i in range(2))
    assert plain.context == Context()
    assert (first.context.secret, second.context.secret) == (5, 6)
    assert (first.factor, first == plain) == (2.0, True), "the settings are the same"


def test_parts_of_a_composition_are_bound_to_secrets_of_their_own():
    bound = Composed((Times(2.0), Times(2.0), Composed((Times(2.0), Times(2.0))))).bind(Context(client=3, secret=5))
    inner = bound.parts[2]
    parts = (*bound.parts[:2], *inner.parts)
    assert len({part.context.secret for part in parts} | {5}) == 5
    assert {part.context.client for part in parts} == {3}
    again = Composed((Times(2.0),)).bind(Context(client=3, secret=5))
    assert again.parts[0].context.secret == bound.parts[0].context.secret


@dataclass(frozen=True)
class Locked(Defense):
    """Has everything that a secret can hide in: a setting, a setting that is made anew, and what was made of it."""

    secrets: ClassVar[tuple[str, ...]] = ("key", "codes")

    strength: float = 0.5
    key: int = 0
    codes: list[int] = field(default_factory=list)

    @cached_property
    def made(self) -> torch.Tensor:
        return torch.rand(3, generator=generator(self.key, self.context.secret))

    def outgoing(self, message, generator):
        return message.carrying(message.tensor + self.strength * self.made)


def test_what_an_adversary_rebuilds_has_the_public_settings_and_a_secret_of_its_own():
    true = Locked(0.25, 77, [7, 7]).bind(Context(classes=9, client=4, secret=123))
    assert true.made is true.made
    rebuilt = true.rebuilt(generator(0))
    assert (rebuilt.strength, rebuilt.key, rebuilt.codes) == (0.25, 0, [])
    assert (rebuilt.context.classes, rebuilt.context.client) == (9, 0)
    assert rebuilt.context.secret != 123
    assert not torch.equal(rebuilt.made, true.made), "what was made of the secret stays behind with it"
    assert true.rebuilt(generator(1)).context.secret != rebuilt.context.secret
    assert_close(true.rebuilt(generator(0)).made, rebuilt.made)


def test_what_was_made_of_one_secret_is_not_taken_along_to_another():
    plain = Locked()
    plain.made  # noqa: B018
    first, second = (plain.bind(Context(secret=secret)) for secret in (1, 2))
    assert not torch.equal(first.made, plain.made)
    assert not torch.equal(first.made, second.made)


def test_by_default_each_client_is_returned_its_own_part_of_the_gradients_of_the_mixtures():
    own = [torch.rand(3, requires_grad=True) for _ in range(4)]
    smashed = [Message(client(i), SERVER, "smashed", z) for i, z in enumerate(own)]
    mixed = [MESSAGE.carrying(0.3 * own[0] + 0.7 * own[1]), MESSAGE.carrying(own[1] * own[2])]
    slopes = [torch.rand(3), torch.rand(3)]
    found = Defense().unmix(smashed, mixed, slopes)
    expected = [0.3 * slopes[0], 0.7 * slopes[0] + slopes[1] * own[2], slopes[1] * own[1]]
    assert_close(list(found[:3]), [one.detach() for one in expected])
    assert found[3] is None


def test_where_the_server_returns_nothing_there_is_nothing_to_divide():
    z = torch.rand(3, requires_grad=True)
    smashed = [MESSAGE.carrying(z)]
    assert Defense().unmix(smashed, [MESSAGE.carrying(z * 2)], [None]) == [None]
    assert Defense().unmix(smashed, [MESSAGE.carrying(torch.ones(3))], [torch.ones(3)]) == [None]
