"""Noise on bounded smashed data: its accountant against dp-accounting's own, its bound and its statistics."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.component import validated
from splitbench.core.defense import Turn
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Plan
from splitbench.core.message import Message
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator
from splitbench.defenses._noise.release import epsilon_of, sigma_for
from splitbench.defenses.dp_gaussian import DPGaussian, clipped, releases_of
from splitbench.topologies._programs.batches import once, until_the_longest_is_done

dp_accounting = pytest.importorskip("dp_accounting")


def message(z, kind="smashed"):
    return Message(CLIENT, SERVER, kind, z)


def by_delta(epsilon: float, shift: float) -> float:
    """The least delta of telling N(0, 1) from N(shift, 1): Balle and Wang, theorem 8."""
    left, right = (math.erfc((epsilon / shift - sign * shift / 2) / math.sqrt(2)) / 2 for sign in (1, -1))
    return left - math.exp(epsilon) * right


@pytest.mark.parametrize("sigma", [2.0, 10.0])
@pytest.mark.parametrize("releases", [1, 3, 60])
def test_epsilon_is_that_of_two_accountants_and_of_the_formula(sigma, releases):
    mine = epsilon_of(sigma, 1e-5, clip=0.5, releases=releases)
    # Replacing a sample moves it by up to 2 * clip = 1, so that sigma is the multiplier too.
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(sigma), releases)
    pld = dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-5)
    rdp = dp_accounting.rdp.RdpAccountant().compose(event).get_epsilon(1e-5)
    assert mine == pytest.approx(pld, rel=1e-3)  # its grid rounds up
    assert 0.999 * mine < rdp < 1.35 * mine  # an upper bound, and not far off
    assert by_delta(mine, math.sqrt(releases) / sigma) == pytest.approx(1e-5, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.1, 30), st.floats(0.1, 20), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_calibration_is_the_inverse_of_accounting(epsilon, clip, delta):
    assert epsilon_of(sigma_for(epsilon, delta, clip), delta, clip) == pytest.approx(epsilon, rel=1e-6)


def test_the_numbers_of_the_docstring():
    assert DPGaussian().deviation == pytest.approx(1.3952, abs=1e-4)
    assert epsilon_of(1.0, 1e-5, clip=0.717) == pytest.approx(6.68, abs=0.01)
    assert epsilon_of(1.0, 1e-5, clip=1) == pytest.approx(10.0, abs=0.01)
    assert [round(epsilon_of(1.0, 1e-5, clip, 60)) for clip in (0.717, 1)] == [108, 185]


def test_a_smaller_epsilon_or_a_larger_clip_is_more_noise_and_a_given_sigma_is_taken():
    assert DPGaussian(epsilon=1).deviation > DPGaussian(epsilon=2).deviation
    assert DPGaussian(clip=3).deviation == pytest.approx(3 * DPGaussian(clip=1).deviation)
    assert DPGaussian(sigma=0.25).deviation == 0.25


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.floats(0.01, 100), st.integers(0, 99))
def test_each_sample_is_within_the_clip_and_keeps_its_direction(count, shape, clip, seed):
    z = 10 * torch.randn(count, *shape, dtype=torch.float64, generator=generator(seed))
    z[0] /= 1e4
    bounded = clipped(z, clip)
    for before, after in zip(z, bounded, strict=True):
        norm = before.norm()
        torch.testing.assert_close(after, before * min(1.0, clip / float(norm)))
        assert after.norm() <= clip * (1 + 1e-12)


def test_a_sample_of_zeros_has_a_finite_slope():
    z = torch.zeros(2, 5, requires_grad=True)
    clipped(z, 1.0).sum().backward()
    assert torch.equal(z.grad, torch.ones(2, 5))


def test_replacing_a_sample_by_any_other_moves_what_is_sent_by_at_most_twice_the_clip():
    z, other = (1e6 * torch.randn(6, 3, 4, 4, dtype=torch.float64, generator=generator(seed)) for seed in (0, 1))
    other[5] = -z[5]
    gaps = (clipped(z, 0.7) - clipped(other, 0.7)).flatten(1).norm(dim=1)
    assert gaps.max() == pytest.approx(1.4)  # reached where a sample is replaced by its opposite


@pytest.mark.parametrize("how", [{}, {"sigma": 0.3, "clip": 5.0}, {"epsilon": 1.0, "clip": 0.1}])
def test_the_noise_is_normal_with_the_deviation_told(how):
    defense, z = DPGaussian(**how), torch.rand(50, 4000)
    noise = defense.outgoing(message(z), generator(0)).tensor - clipped(z, defense.clip)
    noise = (noise / defense.deviation).double().flatten()
    # Of 200,000 draws the mean is within .011 and the deviation within .008 at five standard errors.
    assert abs(noise.mean()) < 0.012
    assert abs(noise.std() - 1) < 0.008
    assert abs((noise.abs() < 1).double().mean() - 0.6827) < 0.006


@pytest.mark.parametrize("kind", ["label", "gradient", "weights"])
def test_only_smashed_data_is_noised(kind):
    z = torch.zeros(4, 3)
    assert DPGaussian().outgoing(message(z, kind), None).tensor is z


def test_an_attacker_cannot_tell_two_samples_apart_more_often_than_epsilon_allows():
    """The best test there is, a threshold along the difference, on samples as far apart as they can be."""
    z = torch.zeros(2, 40)
    z[:, 0] = torch.tensor([100.0, -100.0])
    defense, draws = DPGaussian(epsilon=1.0, delta=0.05), generator(0)
    sent = torch.stack([defense.outgoing(message(z), draws).tensor[:, 0] for _ in range(20_000)])
    rates = [(sent > threshold).double().mean(0) for threshold in torch.linspace(-4, 4, 41)]
    excess = [float(true - math.e * false) for true, false in rates]
    assert max(excess) < 0.05 + 0.02  # 20,000 draws are within .02 at three standard errors
    assert max(excess) > 0.05 - 0.02, "and no more noise than is needed"


def test_a_sample_is_sent_once_per_epoch():
    turns = [Turn(0, 64 / 160, 1, 2 * 3), Turn(0, 32 / 160, 1, 3)]  # 3 epochs of 64, 64, 32
    assert releases_of(turns) == {0: 3}
    costs = DPGaussian(sigma=2.0, delta=1e-6).spent(turns)
    assert costs == {"epsilon": epsilon_of(2.0, 1e-6, 1.0, 3), "delta": 1e-6}
    assert DPGaussian().spent([turns[0]])["epsilon"] > 6.68


def test_one_release_at_the_default_costs_what_it_says():
    assert DPGaussian().spent([Turn(0, 1.0, 1, 1)])["epsilon"] == pytest.approx(6.68, rel=1e-6)
    assert DPGaussian().spent([]) == {"epsilon": 0.0, "delta": 1e-5}


@pytest.mark.parametrize(("sizes", "rows"), [((40, 40), once), ((40, 23), until_the_longest_is_done),
                                             ((40, 3), until_the_longest_is_done), ((17, 33), once)])  # fmt: skip
def test_no_sample_is_sent_more_often_than_is_told(sizes, rows):
    """Against counting every sample of real batches."""
    plan, epochs, turns, counts = Plan(sizes, batch=8), 5, [], {}
    for client, size in enumerate(sizes):
        draws = generator(client)
        batches = [batch for _ in range(epochs) for batch in rows(size, plan, draws)]
        counts[client] = int(torch.cat(batches).bincount().max())
        turns += [Turn(client, min(1.0, len(b) / size), int(b.bincount().max()), 1) for b in batches]
    told = releases_of(turns)
    assert all(told[client] >= counts[client] for client in counts)
    if len(set(sizes)) == 1 or rows is once:
        assert told == counts


def test_a_missing_accountant_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(SplitbenchError, match=r"dp_gaussian needs dp-accounting: pip install 'splitbench\[dp\]'"):
        DPGaussian()


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"clip": 0}, {"delta": 0}, {"delta": 1}, {"sigma": 0}])
def test_settings_that_mean_nothing_are_mistakes(wrong):
    _, mistakes = validated(DPGaussian, wrong, "")
    assert [m.where for m in mistakes] == list(wrong)


@pytest.mark.parametrize("sigma", [None, 1.0, 2])
def test_a_deviation_can_be_given_or_not(sigma):
    found, mistakes = validated(DPGaussian, {"sigma": sigma}, "")
    assert not mistakes
    assert found["sigma"] == sigma
