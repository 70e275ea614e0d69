from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from splitbench.core.errors import SplitbenchError
from splitbench.core.imagined import Imagined
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Query, View
from tests.core._reach import holds, reachable


class Noisy(Imagined):
    """Adds noise, and is undone by the median."""

    def simulate(self, z, generator):
        return z + torch.rand(z.shape, generator=generator)

    def merge(self, rounds):
        return rounds.median(0).values


def view(targets, imagined=None) -> View:
    return View(ThreatModel(rounds=len(targets)), targets, (3,), 2, [], imagined=imagined or Imagined())


def draws() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_rounds_are_seen_one_by_one_and_merged_as_the_adversary_knows_best():
    targets = torch.tensor([[[1.0], [2.0]], [[1.0], [4.0]], [[7.0], [6.0]]])
    seen = view(targets)
    assert len(seen) == 2
    assert seen.targets.shape == (3, 2, 1)
    assert_close(seen.merged, targets.mean(0))
    assert_close(view(targets, Noisy()).merged, torch.tensor([[1.0], [4.0]]))
    assert_close(view(targets[:1]).merged, targets[0])


def test_what_is_imagined_is_drawn_and_merged_as_often_as_the_targets_were():
    z = torch.zeros(2, 4)
    three = view(torch.zeros(3, 2, 4), Noisy()).imagine(z, draws())
    source = draws()
    expected = torch.stack([torch.rand(2, 4, generator=source) for _ in range(3)]).median(0).values
    assert_close(three, expected)
    assert_close(view(torch.zeros(1, 2, 4), Noisy()).imagine(z, draws()), torch.rand(2, 4, generator=draws()))


def test_queries_are_counted_and_refused_in_a_sentence():
    with Query.open(lambda x: x[None] * 2, 5) as query:
        assert query(torch.ones(3, 1)).shape == (1, 3, 1)
        assert query.left == 2
        with pytest.raises(SplitbenchError, match="grants 2 more queries, the attack asked for 3"):
            query(torch.ones(3, 1))
    with pytest.raises(KeyError):
        query(torch.ones(1, 1))


def test_a_query_does_not_lead_to_whoever_answers_it():
    weights = torch.rand(3, 3)

    def answer(x):
        return (x @ weights)[None]

    with Query.open(answer, 5) as query:
        query(torch.ones(1, 3))
        assert holds([query], [weights]) == []
        assert not any(thing is answer for thing in reachable(query))
