from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.member import Plan
from splitbench.topologies._programs.batches import count, once, until_the_longest_is_done

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)
batch = st.integers(1, 12)


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(sizes, batch)
def test_once_shows_every_sample_once(sizes, batch):
    for size in sizes:
        rows = once(size, Plan(tuple(sizes), batch), draws())
        assert torch.cat(rows).sort().values.tolist() == list(range(size))
        assert len(rows) == count(size, batch)


@given(sizes, batch)
def test_in_unison_all_take_part_with_equally_many_samples_in_every_step(sizes, batch):
    plan = Plan(tuple(sizes), batch)
    epochs = [until_the_longest_is_done(size, plan, draws()) for size in sizes]
    assert len({tuple(len(rows) for rows in epoch) for epoch in epochs}) == 1
    for epoch, size in zip(epochs, sizes, strict=True):
        seen = torch.bincount(torch.cat(epoch), minlength=size)
        assert seen.sum() == max(sizes)
        assert seen.max() - seen.min() <= 1  # no sample is shown again before all others have been
        assert len(epoch) == count(max(sizes), batch)


@given(st.integers(1, 200), st.integers(2, 20))
def test_batches_are_as_large_as_asked_and_none_is_left_with_one_sample(size, batch):
    lengths = [len(rows) for rows in once(size, Plan((size,), batch), draws())]
    assert all(length == batch for length in lengths[:-1])
    assert lengths[-1] <= batch + 1
    assert size == 1 or lengths[-1] > 1


def test_a_smaller_client_starts_again_in_another_order():
    orders = {tuple(rows.tolist()) for rows in until_the_longest_is_done(8, Plan((64, 8), 8), draws())}
    assert len(orders) == 8


@given(st.integers(1, 40), sizes, batch)
def test_the_order_of_a_client_depends_on_others_only_where_they_are_larger(size, others, batch):
    alone = once(size, Plan((size,), batch), draws(3))
    beside = once(size, Plan((size, *others), batch), draws(3))
    assert [rows.tolist() for rows in alone] == [rows.tolist() for rows in beside]
    largest = max(size, *others)
    longer = torch.cat(until_the_longest_is_done(size, Plan((size, largest), batch), draws(3)))
    assert longer[:size].tolist() == torch.cat(alone).tolist()
