"""Accuracy and Matthews correlation against slower and surely right computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics.accuracy import Accuracy
from splitbench.metrics.mcc import MCC
from splitbench.metrics.mcc_pooled import MCCPooled


def score(metric: Metric, recovered: Tensor, truth: Tensor) -> Tensor:
    return metric(recovered, Truth.of(truth))


def slow_mcc(guess: list[int], truth: list[int]) -> float:
    """From the table of confusions, counted one pair of classes at a time; 0 where a side is constant."""
    classes = sorted({*guess, *truth})
    table = [[sum(g == i and t == j for g, t in zip(guess, truth, strict=True)) for j in classes] for i in classes]
    total, hits = len(truth), sum(table[i][i] for i in range(len(classes)))
    rows = [sum(row) for row in table]
    columns = [sum(column) for column in zip(*table, strict=True)]
    above = hits * total - sum(r * c for r, c in zip(rows, columns, strict=True))
    below = (total**2 - sum(r * r for r in rows)) * (total**2 - sum(c * c for c in columns))
    return above / math.sqrt(below) if below else 0.0


def labels(seed: int, high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def test_accuracy_of_logits_is_that_of_the_largest():
    logits = torch.tensor([[0.1, 2.0, -1.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    truth = torch.tensor([1, 2, 2])
    assert score(Accuracy(), logits, truth).tolist() == [1, 0, 1]
    assert score(Accuracy(), logits.argmax(1), truth).tolist() == [1, 0, 1]


def test_accuracy_of_attributes_is_the_share_right_with_logits_cut_at_zero():
    logits = torch.tensor([[0.1, -2.0, 3.0, -0.1], [-1.0, -1.0, -1.0, 0.0]])
    truth = torch.tensor([[1, 0, 0, 0], [0, 0, 0, 0]])
    assert score(Accuracy(), logits, truth).tolist() == [0.75, 1]
    assert score(Accuracy(), (logits > 0).long(), truth).tolist() == [0.75, 1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), min_size=1, max_size=40))
def test_mcc_equals_the_count_of_pairs(pairs):
    guess, truth = (list(side) for side in zip(*pairs, strict=True))
    found = score(MCC(), torch.tensor(guess), torch.tensor(truth)).item()
    if len(set(truth)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(slow_mcc(guess, truth), abs=1e-9)


def test_mcc_of_attributes_is_the_mean_over_those_that_vary():
    truth, logits = labels(0, 2, 50, 4), labels(1, 2, 50, 4) - 0.5
    truth[:, 2] = 1
    logits[:, 3] = -1.0
    expected = np.mean([slow_mcc((logits[:, a] > 0).long().tolist(), truth[:, a].tolist()) for a in (0, 1, 3)])
    assert score(MCC(), logits, truth).item() == pytest.approx(expected, abs=1e-9)


def test_attributes_may_be_counted_in_one_table_as_if_they_were_one():
    truth, logits = labels(0, 2, 50, 40), labels(1, 2, 50, 40) - 0.5
    truth[:, :30] *= labels(2, 2, 50, 30)  # most are rare
    guess = (logits > 0).long()
    expected = slow_mcc(guess.flatten().tolist(), truth.flatten().tolist())
    assert score(MCCPooled(), logits, truth).item() == pytest.approx(expected, abs=1e-9)
    commonest = (truth.double().mean(0) > 0.5).long().expand_as(truth)
    assert score(MCC(), commonest, truth).item() == 0
    assert score(MCCPooled(), commonest, truth).item() > 0.05, "knows which attributes are common"
    assert score(MCCPooled(), truth, truth).item() == pytest.approx(1)
    logits[3, 3] = torch.nan
    assert score(MCCPooled(), logits, truth).isnan()
    assert "nothing to pool" in (MCCPooled().applies(Truth.of(truth[:, 0])) or "")


def test_mcc_of_guesses_that_are_always_the_same_is_zero_and_of_a_constant_truth_undefined():
    truth = torch.tensor([0, 1, 2, 1])
    assert score(MCC(), torch.ones(4, dtype=torch.long), truth).item() == 0
    assert score(MCC(), truth, torch.ones(4, dtype=torch.long)).isnan()
    assert score(MCC(), torch.ones(4, 3), torch.ones(4, 3, dtype=torch.long)).isnan()


@settings(deadline=None, max_examples=25)
@given(count=st.integers(2, 30), classes=st.integers(2, 5), seed=st.integers(0, 2**31))
def test_labels_are_best_against_themselves_and_permuting_samples_permutes_scores(count, classes, seed):
    truth, guess = labels(seed, classes, count), labels(seed + 1, classes, count)
    truth[:2] = torch.tensor([0, 1])  # so that it varies
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert score(Accuracy(), truth, truth).tolist() == [1] * count
    assert score(MCC(), truth, truth).item() == pytest.approx(1)
    assert torch.equal(score(Accuracy(), guess[order], truth[order]), score(Accuracy(), guess, truth)[order])
    assert score(MCC(), guess[order], truth[order]).item() == pytest.approx(score(MCC(), guess, truth).item())
    assert score(MCC(), guess, truth) <= 1 + 1e-12


def test_a_nan_logit_never_becomes_a_hit():
    truth = torch.tensor([0, 1])
    logits = torch.tensor([[torch.nan, 0.0], [0.0, 1.0]])  # argmax would take the NaN for the largest: a hit
    scores = score(Accuracy(), logits, truth)
    assert scores.isnan().tolist() == [True, False]
    assert score(MCC(), logits, truth).isnan()
    attributes = torch.tensor([[torch.nan, -1.0], [1.0, -1.0]])  # NaN > 0 is false, which would be right
    assert score(Accuracy(), attributes, torch.tensor([[0, 0], [1, 0]])).isnan().tolist() == [True, False]


@pytest.mark.parametrize("metric", [Accuracy(), MCC()], ids=["accuracy", "mcc"])
@pytest.mark.parametrize(
    ("recovered", "truth", "said"),
    [
        (torch.zeros(3, 5), torch.zeros(4, dtype=torch.long), r"\(3, 5\).*\(4,\).*\(4, K\)"),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long), "K > 1"),
        (torch.zeros(4), torch.zeros(4, dtype=torch.long), "torch.float32 of shape"),
        (torch.zeros(4, 3), torch.zeros(4, 5, dtype=torch.long), r"expected \(4, 5\)"),
        (torch.zeros(4, 3), torch.zeros(4, 3), "true labels are torch.float32"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused_with_a_reason(metric, recovered, truth, said):
    with pytest.raises(SplitbenchError, match=said):
        score(metric, recovered, truth)
