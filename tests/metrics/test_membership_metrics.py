"""Metrics of membership against scipy and against trying every threshold."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth
from splitbench.metrics.auc import AUC
from splitbench.metrics.tpr_at_fpr import TPRAtFPR

EVERY = [AUC(), TPRAtFPR()]
# Few different scores, so that there are ties, and some that are far apart.
scores = st.lists(st.sampled_from([-math.inf, -1e9, -1.0, 0.0, 0.5, 0.5000001, 2.0, math.inf]), min_size=1, max_size=30)


def joined(members: list[float], others: list[float]) -> tuple[Tensor, Truth]:
    truth = torch.tensor([1] * len(members) + [0] * len(others))
    return torch.tensor(members + others, dtype=torch.float64), Truth.of(truth)


def slow_tpr(members: list[float], others: list[float], fpr: float) -> float:
    """Every threshold, and the one that nobody reaches."""
    best = 0.0
    for limit in {*members, *others}:
        if sum(score >= limit for score in others) <= fpr * len(others) + 1e-9:
            best = max(best, sum(score >= limit for score in members) / len(members))
    return best


@settings(deadline=None, max_examples=100)
@given(scores, scores)
def test_auc_is_the_mann_whitney_statistic_over_the_number_of_pairs(members, others):
    expected = mannwhitneyu(members, others, method="asymptotic").statistic / (len(members) * len(others))
    assert AUC()(*joined(members, others)).item() == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(scores, scores, st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 0.9]))
def test_the_true_positive_rate_is_that_of_the_best_threshold(members, others, fpr):
    assert TPRAtFPR(fpr)(*joined(members, others)).item() == pytest.approx(slow_tpr(members, others, fpr), abs=1e-12)


def test_exactly_one_in_a_hundred_may_be_mistaken():
    others = [*range(100)]
    assert TPRAtFPR()(*joined([99.5, 98.5, 97.5, 0.0], others)).item() == 0.5
    assert TPRAtFPR()(*joined([99.5, 98.5, 97.5, 0.0], others[1:])).item() == 0.25, "one of 99 is more than 1 %"
    assert TPRAtFPR()(*joined([296.5, 0.5], [*range(300)])).item() == 0.5, "three of 300, whatever 0.01 * 300 rounds to"


def test_perfect_reversed_and_constant_scores():
    members, others = [3.0, 4.0, 5.0], [0.0, 1.0]
    assert [m(*joined(members, others)).item() for m in EVERY] == [1, 1]
    assert [m(*joined(others, members)).item() for m in EVERY] == [0, 0]
    assert [m(*joined([7.0] * 4, [7.0] * 3)).item() for m in EVERY] == [0.5, 0]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31))
def test_neither_order_nor_a_rising_function_of_the_scores_matters(seed):
    g = torch.Generator().manual_seed(seed)
    guess = torch.randn(40, generator=g)
    truth = torch.arange(40) % 2
    order = torch.randperm(40, generator=g)
    for metric in EVERY:
        value = metric(guess, Truth.of(truth))
        assert metric(guess[order], Truth.of(truth[order])) == value
        assert metric(guess.double().exp(), Truth.of(truth)) == value
        assert value.ndim == 0


@pytest.mark.parametrize("metric", EVERY, ids=["auc", "tpr"])
def test_a_nan_score_never_becomes_a_hit(metric):
    assert metric(*joined([math.nan, 1.0], [0.0])).isnan()
    assert metric(*joined([1.0], [math.nan, 0.0])).isnan()


@pytest.mark.parametrize("metric", EVERY, ids=["auc", "tpr"])
@pytest.mark.parametrize(
    ("recovered", "truth", "said"),
    [
        (torch.zeros(3), torch.ones(3, dtype=torch.int64), "members and non-members to tell apart"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.int64), "members and non-members to tell apart"),
        (torch.zeros(0), torch.zeros(0, dtype=torch.int64), "members and non-members to tell apart"),
        (torch.zeros(3), torch.tensor([0, 1, 2]), "there are other values"),
        (torch.zeros(3), torch.tensor([0.0, 1.0, 1.0]), "membership is whole numbers"),
        (torch.zeros(3), torch.zeros(3, 2, dtype=torch.int64), "membership is whole numbers"),
    ],
)
def test_what_is_no_membership_is_refused_with_the_reason_that_applies_gives(metric, recovered, truth, said):
    assert said in (metric.applies(Truth.of(truth)) or "")
    with pytest.raises(SplitbenchError, match=said):
        metric(recovered, Truth.of(truth))


@pytest.mark.parametrize("metric", EVERY, ids=["auc", "tpr"])
def test_scores_of_another_number_of_samples_are_refused(metric):
    with pytest.raises(SplitbenchError, match=r"shape \(3, 2\); expected one for each of 2 samples"):
        metric(torch.zeros(3, 2), Truth.of(torch.tensor([0, 1])))
