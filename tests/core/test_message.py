from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from splitbench.core.message import About, Message
from splitbench.core.party import MIXER, SERVER, client

counts = st.integers(1, 6)
seeds = st.integers(0, 2**32 - 1)


def weights(*shape, seed=0):
    """Positive, and one in total along the last axis."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).add(0.01).softmax(-1)


def plain(owner, rows, start=0):
    return About.plain(owner, torch.arange(start, start + rows))


def total(about):
    return about.shares.sum(1)


def of(about, truth):
    """The mixture of values of samples that the bookkeeping says a row is."""
    return (about.shares * truth[about.samples]).sum(1)


def test_a_plain_message_is_about_one_sample_per_row():
    about = About.plain(3, torch.tensor([7, 5, 9]))
    assert about.samples.tolist() == [[7], [5], [9]]
    assert about.owners.tolist() == [[3], [3], [3]]
    assert about.shares.tolist() == [[1], [1], [1]]
    assert len(about) == 3
    assert not about.mixes


@given(counts, st.integers(2, 4), seeds)
def test_shares_of_a_mixture_sum_to_one_and_name_its_members(rows, parts, seed):
    members = [plain(i, rows, 10 * i) for i in range(parts)]
    for shares in (weights(parts, seed=seed), weights(rows, parts, seed=seed)):
        about = About.mixture(members, shares)
        assert about.mixes
        assert len(about) == rows
        assert_close(total(about), torch.ones(rows))
        assert about.owners.tolist() == [list(range(parts))] * rows
        assert about.samples.tolist() == [[10 * i + n for i in range(parts)] for n in range(rows)]
        assert_close(about.shares, shares.expand(rows, parts))


@given(counts, counts, seeds)
def test_rows_mixed_within_a_batch_are_what_the_weights_say(rows, made, seed):
    about = About.plain(1, torch.arange(20, 20 + rows)).mixed(weights(made, rows, seed=seed))
    truth = torch.rand(40)
    assert len(about) == made
    assert_close(total(about), torch.ones(made))
    assert_close(of(about, truth), weights(made, rows, seed=seed) @ truth[20 : 20 + rows])
    assert about.owners.unique().tolist() == [1]


@given(counts, st.integers(2, 3), seeds)
def test_a_mixture_of_mixtures_multiplies_shares(rows, parts, seed):
    truth = torch.rand(100)
    inner = [
        About.mixture([plain(0, rows, 10 * i), plain(1, rows, 50 + 10 * i)], weights(2, seed=seed + i))
        for i in range(parts)
    ]
    outer = weights(parts, seed=seed)
    about = About.mixture(inner, outer)
    assert_close(total(about), torch.ones(rows))
    assert_close(of(about, truth), sum(share * of(part, truth) for share, part in zip(outer, inner, strict=True)))


@given(st.lists(st.tuples(counts, st.integers(1, 3)), min_size=1, max_size=4), seeds)
def test_messages_below_each_other_keep_their_rows_whatever_their_widths(parts, seed):
    truth = torch.rand(100)
    members = [
        About.mixture([plain(i, rows, 10 * i) for i in range(width)], weights(width, seed=seed))
        for rows, width in parts
    ]
    about = About.cat(members)
    assert len(about) == sum(rows for rows, _ in parts)
    assert about.samples.shape[1] == max(width for _, width in parts)
    assert_close(total(about), torch.ones(len(about)))
    assert_close(of(about, truth), torch.cat([of(member, truth) for member in members]))


@given(counts, st.integers(1, 3), st.integers(1, 3))
def test_shares_by_place_stay_beside_each_other_whatever_the_widths(rows, one, other):
    def by_place(width):
        places = weights(rows, 2, 2, width).movedim(-1, 1)
        return About.mixture([plain(i, rows) for i in range(width)], weights(rows, width), places)

    parts = [by_place(one), by_place(other)]
    about = About.cat(parts)
    assert about.places.shape == (2 * rows, max(one, other), 2, 2)
    assert_close(about.places.sum(1), torch.ones(2 * rows, 2, 2))
    assert_close(about.places[:rows, :one], parts[0].places)
    assert_close(about.places[rows:, :other], parts[1].places)


def test_rows_are_taken_with_all_that_is_known_of_them():
    about = About.mixture([plain(0, 4), plain(1, 4, 10)], weights(4, 2), torch.rand(4, 2, 3, 3))
    for rows in (slice(-2, None), torch.tensor([3, 1])):
        taken = about[rows]
        for name in ("samples", "owners", "shares", "places"):
            assert torch.equal(getattr(taken, name), getattr(about, name)[rows])
    assert plain(0, 4)[:2].places is None


def test_rows_that_are_mixtures_cannot_be_mixed_across_the_batch():
    about = About.mixture([plain(0, 2), plain(1, 2)], torch.tensor([0.5, 0.5]))
    with pytest.raises(ValueError, match="mixtures already"):
        about.mixed(torch.eye(2))


def test_a_reply_goes_back_about_the_same_samples_and_asks_for_nothing():
    about = plain(1, 2)
    message = Message(client(1), MIXER, "smashed", torch.ones(2), 1, 5, 3, 0.25, True, about)
    reply = message.reply("gradient", torch.zeros(2))
    assert (reply.sender, reply.receiver, reply.kind) == (MIXER, client(1), "gradient")
    assert (reply.cut, reply.step, reply.round, reply.answer) == (1, 5, 3, False)
    assert reply.about is about


def test_an_adversary_sees_a_message_without_the_bookkeeping():
    message = Message(client(1), SERVER, "smashed", torch.ones(2), about=plain(1, 2))
    assert message.seen().about is None
    assert message.seen().tensor is message.tensor
    assert message.about is not None


def test_rows_that_are_led_stay_so_beside_a_batch_of_one():
    """The remainder of an epoch has nobody to be mixed with; it must not turn all others into mixtures."""
    pair, single = About.plain(0, torch.tensor([4, 5])), About.plain(0, torch.tensor([6]))
    led = pair.led(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    whole = About.cat([led, single])
    assert whole.lead
    assert not whole.mixes
    assert whole.samples[:, 0].tolist() == [4, 5, 6]
    assert whole.shares[:, 0].tolist() == [0.75, 0.75, 1.0]
    assert not About.cat([single, single]).lead, "plain rows stay plain"
    mixture = pair.mixed(torch.tensor([[0.5, 0.5]]))
    assert About.cat([led, mixture]).mixes, "a mixture among them is one"
