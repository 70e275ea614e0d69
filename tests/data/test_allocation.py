"""Private, auxiliary and evaluation samples have nothing in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.data import DataSet, Field, Samples
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
    assert set(first.digests) == {"private", "auxiliary", "evaluation", "nonmembers", "test"}
    assert len(set(first.digests.values())) == 5
    assert allocate(data, 10, 10, 10, generator(1)).digests["private"] != first.digests["private"]
    same_rows = replace(first, evaluation=first.private)
    assert same_rows.digests["evaluation"] != same_rows.digests["private"], "rows of another split"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.sampled_from([torch.uint8, torch.int64, torch.float32]), st.integers(0, 1000))
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


@settings(max_examples=200, deadline=None)
@given(some, some, some, st.integers(1, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_non_members_and_foreign_samples_are_disjoint_from_all_others(
    train, test, foreign, private, auxiliary, evaluation, candidates, own
):
    data, other = made(train, test), made(foreign, [200])
    public = data if own else other
    try:
        allocation = allocate(data, private, auxiliary, evaluation, generator(0), public, candidates)
    except SplitbenchError:
        return
    mine, scored = numbers(data.train.x, allocation.private), numbers(data.test.x, allocation.evaluation)
    known = numbers(allocation.public.train.x, allocation.auxiliary)
    strangers = numbers(data.test.x, allocation.nonmembers)
    assert len(allocation.nonmembers) == candidates
    assert len(allocation.auxiliary) == auxiliary
    assert not strangers & (set(train) | scored | known)
    assert not set(allocation.nonmembers.tolist()) & set(allocation.evaluation.tolist())
    assert not known & (mine | set(test))
    assert allocation.public.digest == public.digest
    allocation.check()


def test_neither_candidates_nor_auxiliary_samples_from_elsewhere_change_who_is_private_or_evaluated():
    data, other = made(range(100), range(100, 150)), made(range(150, 250), range(3))
    base = allocate(data, 20, 10, 10, generator(5))
    assert base.public is data
    assert len(base.nonmembers) == 0
    for asked in (
        allocate(data, 20, 10, 10, generator(5), candidates=30),
        allocate(data, 20, 40, 10, generator(5), candidates=3),
        allocate(data, 20, 60, 10, generator(5), other, 30),
    ):
        assert torch.equal(asked.private, base.private)
        assert torch.equal(asked.evaluation, base.evaluation)
    few, many = (allocate(data, 20, 10, 10, generator(5), candidates=n).nonmembers for n in (5, 30))
    assert torch.equal(few, many[:5])


def test_samples_of_another_data_set_are_taken_from_its_training_split_and_leave_all_of_ours_private():
    data, other = made(range(50), range(50, 60)), made([*range(100, 120), 3, 55], range(200, 210))
    allocation = allocate(data, 0, 20, 5, generator(0), other)
    assert sorted(allocation.private.tolist()) == list(range(50))
    assert set(allocation.samples("auxiliary").x[:, 0, 0, 0].tolist()) == set(range(100, 120))
    assert torch.equal(allocation.samples("private").x, data.train.x[allocation.private])
    assert torch.equal(allocation.samples("nonmembers").x, data.test.x[:0])
    with pytest.raises(SplitbenchError, match=r"asked for 21 auxiliary samples; of the 22 .* 20 are left"):
        allocate(data, 0, 21, 5, generator(0), other)
    digests = allocation.digests
    ours = replace(allocation, public=data)
    assert ours.digests["auxiliary"] != digests["auxiliary"], "rows of another data set"
    assert ours.digests["private"] == digests["private"]


def test_the_same_data_loaded_again_is_no_other_data_set():
    data, again = made(range(50), range(50, 60)), made(range(50), range(50, 60))
    one, other = allocate(data, 20, 10, 5, generator(0)), allocate(data, 20, 10, 5, generator(0), again)
    assert other.public is data
    assert one.digests == other.digests


def test_samples_of_another_shape_or_kind_cannot_be_auxiliary():
    data = made(range(20), range(20, 30))
    small = replace(
        data, train=Samples(torch.zeros(9, 3, 4, 4, dtype=torch.uint8), torch.zeros(9).long()), name="small"
    )
    with pytest.raises(SplitbenchError, match=r"'small' cannot be auxiliary to 'made'.*\(3, 4, 4\).*\(3, 5, 7\)"):
        allocate(data, 5, 5, 5, generator(0), small)
    rows = Samples(torch.rand(9, 2), torch.zeros(9, dtype=torch.int64))
    table = DataSet(
        "table", rows, Samples(torch.rand(9, 2), rows.y), 1, modality="tabular", fields=(Field("a"), Field("b"))
    )
    others = DataSet(
        "others", Samples(torch.rand(9, 2), rows.y), rows, 1, modality="tabular", fields=(Field("a"), Field("c"))
    )
    with pytest.raises(SplitbenchError, match="describe other fields"):
        allocate(table, 5, 2, 2, generator(0), others)


def test_more_candidates_than_there_are_says_how_many_there_are():
    data = made(range(20), [*range(2), *range(30, 38), 30])
    with pytest.raises(
        SplitbenchError, match=r"asked for 9 samples that are no members; .* has 11, of which \d are left"
    ):
        allocate(data, 5, 1, 2, generator(0), candidates=9)
    with pytest.raises(SplitbenchError, match="candidate samples cannot be negative"):
        allocate(data, 5, 1, 2, generator(0), candidates=-1)


def test_the_check_finds_non_members_among_the_others():
    data = made([*range(20)], [3, *range(30, 40), 30])
    fine = allocate(data, 5, 5, 5, generator(0), candidates=2)
    rows = torch.tensor
    for changes, said in (
        ({"private": rows([3]), "nonmembers": rows([0])}, "1 of the nonmembers samples are among the private"),
        ({"evaluation": rows([1]), "nonmembers": rows([11])}, "1 of the nonmembers samples are among the evaluation"),
        ({"evaluation": rows([1]), "nonmembers": rows([2, 2])}, "1 nonmembers samples are given twice"),
    ):
        with pytest.raises(SplitbenchError, match=said):
            replace(fine, **changes).check()
