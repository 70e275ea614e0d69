from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from splitbench.core.defense import Composed, Defense
from splitbench.core.party import SERVER, client
from splitbench.core.split import same_network
from splitbench.core.wire import Message


class Marked(Defense):
    """Leaves its letter wherever it is called."""

    def __init__(self, letter, log, mixes=False):
        self.letter, self.log, self.mixes = letter, log, mixes

    def prepare(self, model):
        self.log.append(self.letter + " prepare")
        return model

    def inputs(self, x, y, generator):
        self.log.append(self.letter + " inputs")
        return x + 1, y

    def penalty(self, x, z):
        return z.sum() if self.letter == "b" else None

    def mix(self, smashed, labels, generator):
        self.log.append(self.letter + " mix")
        return smashed[:1], labels[:1]

    def gradients(self, stage, generator):
        self.log.append(self.letter + " gradients")


MESSAGE = Message(0, client(0), SERVER, "smashed", 0, torch.ones(2))


def test_the_baseline_changes_nothing():
    plain, x, y = Defense(), torch.ones(2), torch.zeros(2)
    model = same_network([nn.Identity(), nn.Identity()])
    assert plain.prepare(model) is model
    assert plain.inputs(x, y, None) == (x, y)
    assert plain.penalty(x, x) is None
    assert plain.outgoing(MESSAGE, None) is plain.incoming(MESSAGE) is MESSAGE
    assert plain.mix([MESSAGE], [], None) == ([MESSAGE], [])
    assert plain.protects(99)
    assert not plain.mixes


def test_every_moment_passes_through_the_parts_in_order():
    log: list[str] = []
    both = Composed((Marked("a", log), Marked("b", log)))
    both.prepare(same_network([nn.Identity()]))
    x, _ = both.inputs(torch.zeros(1), torch.zeros(1), None)
    both.mix([MESSAGE, MESSAGE], [MESSAGE, MESSAGE], None)
    both.gradients(nn.Identity(), None)
    assert log == [f"{letter} {what}" for what in ("prepare", "inputs", "mix", "gradients") for letter in "ab"]
    assert x.item() == 2


def test_penalties_add_up_and_those_that_have_none_count_nothing():
    z = torch.ones(3)
    assert Composed((Marked("a", []),)).penalty(z, z) is None
    assert Composed((Marked("a", []), Marked("b", []), Marked("b", []))).penalty(z, z).item() == 6


def test_one_part_that_mixes_is_enough_for_a_mixer():
    assert not Composed((Marked("a", []),)).mixes
    assert Composed((Marked("a", []), Marked("b", [], mixes=True))).mixes


@dataclass(frozen=True)
class Largest(Defense):
    """What was sent several times is best read off its largest value."""

    def merge(self, rounds: torch.Tensor) -> torch.Tensor:
        return rounds.amax(0)


def test_a_defense_says_how_several_rounds_are_merged_and_of_several_defenses_it_is_the_mean() -> None:
    rounds = torch.tensor([[1.0], [5.0]])
    assert Composed((Largest(),)).merge(rounds).item() == 5
    assert Composed(()).merge(rounds).item() == Composed((Largest(), Largest())).merge(rounds).item() == 3
