from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.party import client
from splitbench.core.randomness import Streams, derive, generator, seeded


def draw(source) -> list[float]:
    return torch.rand(3, generator=source).tolist()


@given(st.integers(0, 2**63 - 1), st.text(), st.text())
def test_a_seed_for_one_purpose_is_always_the_same_and_another_for_another(seed, one, other):
    assert derive(seed, one) == derive(seed, one)
    assert (derive(seed, one) == derive(seed, other)) == (one == other)
    assert 0 <= derive(seed, one) < 2**63


def test_what_is_drawn_for_one_purpose_never_changes_what_is_drawn_for_another():
    alone, both = Streams(1, client(0)), Streams(1, client(0))
    expected = [draw(alone.of("order")) for _ in range(3)]
    found = []
    for _ in range(3):
        draw(both.of("defense"))
        with both.layers():
            torch.rand(5)
        found.append(draw(both.of("order")))
    assert found == expected


def test_a_stream_goes_on_where_it_was():
    streams = Streams(1)
    assert streams.of("order") is streams.of("order")
    first, second = draw(streams.of("order")), draw(streams.of("order"))
    assert first != second
    assert first == draw(generator(Streams(1).seed, "order"))


def test_purposes_and_owners_have_numbers_of_their_own():
    drawn = [
        draw(streams.of(purpose))
        for streams in (Streams(1, client(0)), Streams(1, client(1)), Streams(2, client(0)), Streams(1))
        for purpose in ("order", "defense", "augment")
    ]
    assert len({tuple(one) for one in drawn}) == len(drawn)


def layers(streams) -> list[float]:
    with streams.layers():
        return torch.rand(3).tolist()


def test_layers_draw_on_where_they_were_and_leave_the_global_generator_as_it_was():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    streams = Streams(1, client(0))
    first, second = layers(streams), layers(streams)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(8)
    with (again := Streams(1, client(0))).layers():
        assert first + second == [*torch.rand(3).tolist(), *torch.rand(3).tolist()]
    assert layers(again) != first
    assert layers(Streams(1, client(1))) != first


def test_one_party_at_work_inside_another_changes_nothing_for_either():
    outer, inner = Streams(1, client(0)), Streams(1, client(1))
    expected = {one: layers(one) + layers(one) for one in (Streams(1, client(0)), Streams(1, client(1)))}
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    with outer.layers():
        mine = torch.rand(3).tolist()
        theirs = layers(inner)
        mine += torch.rand(3).tolist()
    theirs += layers(inner)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [mine, theirs] == list(expected.values())


def test_the_global_generator_is_restored_whatever_happens():
    streams, before = Streams(1), torch.random.get_rng_state()
    with pytest.raises(ZeroDivisionError), streams.layers():
        print(torch.rand(3), 1 // 0)
    assert torch.equal(torch.random.get_rng_state(), before)
    fresh = Streams(1)
    layers(fresh)
    assert layers(streams) == layers(fresh), "what was drawn before the failure is spent"


def test_a_stretch_with_a_seed_is_repeatable_and_leaves_no_trace():
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        with seeded(3, "initialisation"):
            drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[1]
    assert torch.equal(torch.random.get_rng_state(), before)
