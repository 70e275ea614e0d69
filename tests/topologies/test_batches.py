from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.topologies._batches import in_turn, in_unison, side_by_side

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)
batch = st.integers(1, 12)


def rows_of(steps, clients):
    return [[rows for step in steps for client, rows in step if client == i] for i in range(clients)]


@given(sizes, batch)
def test_taking_turns_shows_every_sample_once_and_never_returns_to_a_client(sizes, batch):
    steps = list(in_turn(sizes, batch, torch.Generator().manual_seed(0)))
    clients = [client for step in steps for client, _ in step]
    assert clients == sorted(clients)
    for rows, size in zip(rows_of(steps, len(sizes)), sizes, strict=True):
        assert torch.cat(rows).sort().values.tolist() == list(range(size))


@given(sizes, batch)
def test_side_by_side_every_client_passes_once_over_its_samples_from_the_first_step_on(sizes, batch):
    steps = list(side_by_side(sizes, batch, torch.Generator().manual_seed(0)))
    assert [client for client, _ in steps[0]] == list(range(len(sizes)))
    for rows, size in zip(rows_of(steps, len(sizes)), sizes, strict=True):
        assert torch.cat(rows).sort().values.tolist() == list(range(size))


@given(sizes, batch)
def test_in_unison_all_take_part_with_equally_many_samples(sizes, batch):
    steps = list(in_unison(sizes, batch, torch.Generator().manual_seed(0)))
    for step in steps:
        assert [client for client, _ in step] == list(range(len(sizes)))
        assert len({len(rows) for _, rows in step}) == 1
    for rows, size in zip(rows_of(steps, len(sizes)), sizes, strict=True):
        seen = torch.bincount(torch.cat(rows), minlength=size)
        assert seen.sum() == max(sizes)
        assert seen.max() - seen.min() <= 1  # no sample is shown again before all others have been


@given(st.integers(1, 200), st.integers(2, 20))
def test_batches_are_as_large_as_asked_and_none_is_left_with_one_sample(size, batch):
    lengths = [len(rows) for step in in_turn([size], batch, torch.Generator()) for _, rows in step]
    assert all(length == batch for length in lengths[:-1])
    assert lengths[-1] <= batch + 1
    assert size == 1 or lengths[-1] > 1


def test_a_smaller_client_starts_again_in_another_order():
    steps = in_unison([64, 8], 8, torch.Generator().manual_seed(0))
    orders = {tuple(step[1][1].tolist()) for step in steps}
    assert len(orders) == 8
