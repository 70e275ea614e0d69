"""Private, auxiliary and evaluation samples have nothing in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.data import DataSet, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import generator
from splitbench.data._allocation.allocate import allocate
from splitbench.data._allocation.fingerprints import prints


def made(train, test) -> DataSet:
    """Images that are equal where their numbers are."""

    def samples(numbers):
        x = torch.tensor(numbers).view(-1, 1, 1, 1).expand(-1, 3, 5, 7).contiguous()
        return Samples(x.to(torch.uint8), torch.zeros(len(numbers), dtype=torch.int64))

    return DataSet("made", samples(train), samples(test), 1)


def numbers(x, rows):
    return set(x[rows, 0, 0, 0].tolist())


def contents(data, allocation):
    return (
        numbers(data.train.x, allocation.private),
        numbers(data.train.x, allocation.auxiliary),
        numbers(data.test.x, allocation.evaluation),
        numbers(data.test.x, allocation.test),
    )


some = st.lists(st.integers(0, 40), min_size=1, max_size=60)


@settings(max_examples=200, deadline=None)
@given(some, some, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_no_image_is_in_two_sets_however_often_it_occurs(train, test, private, auxiliary, evaluation, seed):
    data = made(train, test)
    try:
        allocation = allocate(data, private, auxiliary, evaluation, generator(seed))
    except SplitbenchError:
        return
    mine, public, scored, whole = contents(data, allocation)
    assert not mine & public
    assert not mine & scored
    assert not public & whole
    assert not public & scored
    assert (len(allocation.auxiliary), len(allocation.evaluation)) == (auxiliary, evaluation)
    assert len(allocation.private) == (private or len(train) - auxiliary)
    assert allocation.test.tolist() == list(range(len(test)))
    allocation.check()


def test_doubles_of_private_and_test_samples_are_replaced_by_others():
    # Fifty images, each twice, and ten that are in the test split too.
    data = made([*range(50), *range(50), *range(100, 110)], range(100, 130))
    for seed in range(20):
        mine, public, scored, _ = contents(data, allocate(data, 30, 20, 20, generator(seed)))
        assert not public & (mine | scored | set(range(100, 130)))
        assert scored == set(range(110, 130))


def test_private_samples_do_not_depend_on_how_many_are_auxiliary_or_evaluated():
    data = made(range(200), range(200, 250))
    few, many = allocate(data, 50, 5, 10, generator(1)), allocate(data, 50, 100, 20, generator(1))
    assert torch.equal(few.private, many.private)
    assert torch.equal(few.auxiliary, many.auxiliary[:5])
    assert torch.equal(few.evaluation, many.evaluation[:10])


def test_the_rest_is_private_when_no_number_is_given():
    data = made([*range(90), 0, 1], range(200, 210))
    allocation = allocate(data, 0, 40, 5, generator(0))
    assert sorted([*allocation.private.tolist(), *allocation.auxiliary.tolist()]) == list(range(92))
    assert not contents(data, allocation)[1] & {0, 1}, "the double of an auxiliary sample would be private"
    assert len(allocate(data, 0, 0, 0, generator(0)).private) == 92


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((21, 1, 1), "asked for 21 private samples; 'made' has 20"),
        ((5, 14, 1), r"asked for 14 auxiliary samples; of the 20 .* (8|9|10|11|12|13) are left"),
        ((0, 19, 1), "asked for 19 auxiliary samples; of the 20 .* 18 are left .*among the other private ones"),
        ((5, 1, 9), "asked for 9 evaluation samples; the test split of 'made' has 10, of which 8 do not occur"),
        ((-1, 1, 1), "private samples cannot be negative"),
    ],
)
def test_asking_for_more_than_there_is_says_how_much_there_is(asked, said):
    data = made(range(20), [*range(2), *range(30, 38)])
    with pytest.raises(SplitbenchError, match=said):
        allocate(data, *asked, generator(0))


def test_auxiliary_samples_that_leave_nothing_private_are_refused():
    with pytest.raises(SplitbenchError, match="20 auxiliary samples leave no private ones"):
        allocate(made(range(20), range(20, 25)), 0, 20, 1, generator(0))


def test_the_check_finds_what_sets_have_in_common():
    data = made([*range(20), 5], [3, *range(30, 40)])
    fine = allocate(data, 5, 5, 5, generator(0))
    rows = torch.tensor
    for changes, said in (
        (
            {"private": rows([1, 2, 3]), "auxiliary": rows([2, 3, 4])},
            "2 of the auxiliary samples are among the private",
        ),
        ({"private": rows([5]), "auxiliary": rows([20])}, "1 of the auxiliary samples are among the private"),
        ({"private": rows([3]), "evaluation": rows([0, 1])}, "1 of the evaluation samples are among the private"),
        ({"private": rows([1]), "auxiliary": rows([3]), "evaluation": rows([0])}, "evaluation .* among the auxiliary"),
        ({"private": rows([1, 1, 2])}, "1 private samples are given twice"),
    ):
        with pytest.raises(SplitbenchError, match=said):
            replace(fine, **changes).check()
    fine.check()


def test_digests_tell_sets_apart_and_not_their_order():
    data = made(range(50), range(60, 80))
    first = allocate(data, 10, 10, 10, generator(0))
    shuffled = replace(first, private=first.private.flip(0))
    assert shuffled.digests == first.digests
    assert set(first.digests) == {"private", "auxiliary", "evaluation", "test"}
    assert len(set(first.digests.values())) == 4
    assert allocate(data, 10, 10, 10, generator(1)).digests["private"] != first.digests["private"]
    same_rows = replace(first, evaluation=first.private)
    assert same_rows.digests["evaluation"] != same_rows.digests["private"], "rows of another split"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.sampled_from([torch.uint8, torch.int64]), st.integers(0, 1000))
def test_prints_are_equal_exactly_where_rows_are(width, dtype, seed):
    x = torch.randint(0, 3, (60, width), generator=generator(seed)).to(dtype)
    found = torch.from_numpy(prints(x).astype("int64"))
    assert torch.equal(found[:, None] == found[None], (x[:, None] == x[None]).all(-1))


def test_prints_tell_rows_apart_that_differ_in_one_bit():
    x = torch.zeros(1 + 8 * 784, 784, dtype=torch.uint8)
    bits = torch.arange(8 * 784)
    x[1 + bits, bits // 8] = (1 << (bits % 8)).to(torch.uint8)
    found = prints(x)
    assert len(set(found.tolist())) == len(x)
    assert np.bitwise_or.reduce(found) == 2**64 - 1, "all of the 64 bits are in use"
    assert len(set((found >> np.uint64(32)).tolist())) > len(x) - 5
    assert ((found >> np.uint64(32)) != (found & np.uint64(2**32 - 1)))[1:].all(), "the halves are two hashes"
