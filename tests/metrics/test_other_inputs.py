"""Texts and tables against counting one by one; and no metric fails on data it is not for."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from splitbench.core import registry
from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics.field_accuracy import FieldAccuracy
from splitbench.metrics.field_mse import FieldMSE
from splitbench.metrics.ssim import SSIM
from splitbench.metrics.token_accuracy import TokenAccuracy

FIELDS = (Field("age"), Field("town", 9), Field("income"), Field("job", 3))


def texts(*rows: list[int]) -> Truth:
    return Truth.of(torch.tensor(rows), "text")


def table(values: Tensor, fields: tuple[Field, ...] = FIELDS) -> Truth:
    return Truth(values, modality="tabular", fields=fields)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(seed: int, count: int) -> Tensor:
    g = generator(seed)
    columns = [
        torch.randint(f.categories, (count,), generator=g).float() if f.categories else torch.randn(count, generator=g)
        for f in FIELDS
    ]
    return torch.stack(columns, 1)


def test_token_accuracy_is_the_share_of_positions_that_are_right():
    truth = texts([0, 5, 6, 2], [0, 7, 7, 2])
    assert TokenAccuracy()(torch.tensor([[0, 6, 5, 2], [0, 7, 7, 2]]), truth).tolist() == [0.5, 1]
    assert TokenAccuracy()(torch.zeros(2, 4), truth).tolist() == [0.25, 0.25], "ids as floats"


def test_logits_of_tokens_decide_for_the_largest():
    truth = texts([0, 5, 6, 2], [0, 7, 7, 2])
    guess = torch.tensor([[0, 5, 1, 2], [1, 7, 7, 2]])
    logits = torch.nn.functional.one_hot(guess, 9) * 3.5 - 1
    assert TokenAccuracy()(logits, truth).tolist() == TokenAccuracy()(guess, truth).tolist() == [0.75, 0.75]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 12))
def test_field_accuracy_equals_counting_field_by_field(seed, count):
    truth, guess = rows(seed, count), rows(seed + 1, count)
    guess[:, 1] += 0.4  # rounds to the same id
    expected = []
    for g, t in zip(guess.tolist(), truth.tolist(), strict=True):
        right = [round(a) == b if f.categories else abs(a - b) <= 0.25 for a, b, f in zip(g, t, FIELDS, strict=True)]
        expected.append(sum(right) / len(FIELDS))
    assert FieldAccuracy()(guess, table(truth)).tolist() == pytest.approx(expected)


def test_a_number_is_recovered_to_a_quarter_standard_deviation_and_a_category_exactly():
    truth = table(torch.tensor([[1.0, 4.0, -2.0, 2.0]]))
    for guess, share in (([1.25, 4, -2.25, 2], 1), ([1.26, 4, -2, 2], 0.75), ([1, 5, -2, 2], 0.75), ([9, 9, 9, 9], 0)):
        assert FieldAccuracy()(torch.tensor([guess], dtype=torch.float32), truth).item() == share
    assert FieldAccuracy(within=1.0)(torch.tensor([[1.9, 4, -2, 2]]), truth).item() == 1


def test_the_error_of_a_row_is_that_of_its_numbers_and_of_no_category():
    truth = table(torch.tensor([[1.0, 4.0, -2.0, 2.0], [0.0, 1.0, 0.0, 1.0]]))
    guess = torch.tensor([[1.5, 8.0, -3.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    assert FieldMSE()(guess, truth).tolist() == [(0.25 + 1) / 2, 0]
    guess[0, 1] = torch.nan
    assert FieldMSE()(guess, truth).tolist() == [0.625, 0], "a category that is unknown changes nothing"
    guess[1, 2] = torch.nan
    assert FieldMSE()(guess, truth).isnan().tolist() == [False, True]


@pytest.mark.parametrize("seed", range(5))
def test_samples_are_best_against_themselves_and_permuting_them_permutes_scores(seed):
    tokens, other = (torch.randint(9, (7, 5), generator=generator(s)) for s in (seed, seed + 1))
    order = torch.randperm(7, generator=generator(seed))
    for metric, truth, guess in (
        (TokenAccuracy(), Truth.of(tokens, "text"), other),
        (FieldAccuracy(), table(rows(seed, 7)), rows(seed + 1, 7)),
    ):
        assert metric(truth.values, truth).tolist() == [1] * 7
        values = metric(guess, truth)
        assert values.shape == (7,)
        assert torch.equal(metric(guess[order], truth.take(order)), values[order])


def test_a_nan_scores_nan_in_its_own_sample_alone():
    guess = rows(0, 3)
    guess[1, 1] = torch.nan
    assert FieldAccuracy()(guess, table(rows(0, 3))).isnan().tolist() == [False, True, False]
    logits = torch.zeros(2, 3, 4)
    logits[0, 1, 1] = torch.nan
    assert TokenAccuracy()(logits, texts([1, 1, 1], [0, 0, 0])).isnan().tolist() == [True, False]


@pytest.mark.parametrize(
    ("metric", "recovered", "truth", "said"),
    [
        (TokenAccuracy(), torch.zeros(2, 5), texts([1, 2], [3, 4]), r"shape \(2, 5\); expected token ids \(2, 2\)"),
        (TokenAccuracy(), torch.zeros(2, 2, 9, dtype=torch.long), texts([1, 2], [3, 4]), "expected token ids"),
        (TokenAccuracy(), torch.zeros(2, 2), Truth.of(torch.zeros(2, 2), "text"), "texts are whole numbers"),
        (FieldAccuracy(), torch.zeros(2, 3), table(torch.zeros(2, 4)), r"\(2, 3\), the true ones \(2, 4\)"),
        (FieldAccuracy(), torch.zeros(2, 4), table(torch.zeros(2, 4), ()), "4 columns and 0 fields"),
        (FieldMSE(), torch.zeros(2, 3), table(torch.zeros(2, 4)), r"\(2, 3\), the true ones \(2, 4\)"),
        (FieldMSE(), torch.zeros(2, 1), table(torch.zeros(2, 1), (Field("town", 9),)), "all fields are categories"),
        (FieldAccuracy(), torch.zeros(2, 4), table(torch.zeros(2, 4, dtype=torch.long)), "tables are floats"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_reason(metric, recovered, truth, said):
    with pytest.raises(SplitbenchError, match=said):
        metric(recovered, truth)


# What an attack on any data set could be scored against: the truth, and the metrics that say something about it.
PATCHES = {"patch_mse", "patch_ssim", "position_accuracy"}
IMAGES = {"mse", "mse_signed", "psnr", "psnr_signed", "ssim"}
LABELS = {"accuracy", "mcc"}
MEMBERS = {"auc", "tpr_at_fpr"}
TRUTHS = {
    "images": (Truth.of(torch.rand(4, 3, 32, 32)), IMAGES | PATCHES),
    "small images": (Truth.of(torch.rand(4, 1, 10, 28)), IMAGES - {"ssim"}),
    "no images": (Truth.of(torch.rand(0, 1, 32, 32)), IMAGES | PATCHES),
    "images of no whole patches": (Truth.of(torch.rand(4, 1, 28, 28)), IMAGES),
    "texts": (texts([1, 2, 3], [4, 5, 6]), {"token_accuracy"}),
    "tables": (table(rows(0, 4)), {"field_accuracy", "field_mse"}),
    "tables of categories": (table(torch.zeros(4, 1), (Field("town", 9),)), {"field_accuracy"}),
    "an undescribed table": (table(rows(0, 4), ()), set()),
    "something else": (Truth(torch.rand(4, 2), modality="sound"), set()),
}
NAMES = registry.names("metrics")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", TRUTHS)
def test_a_metric_of_inputs_applies_to_the_data_it_is_for_and_says_why_not_to_other_data(kind, name):
    metric = registry.load("metrics", name)()
    if metric.goal != "inputs":
        return
    truth, wanted = TRUTHS[kind]
    why = metric.applies(truth)
    assert (why is None) == (name in wanted), why
    if why is None:
        assert metric(truth.values, truth).shape == (len(truth),)
    else:
        assert len(why.split()) > 3


@pytest.mark.parametrize("modality", ["image", "text", "tabular"])
@pytest.mark.parametrize("name", sorted(LABELS | MEMBERS))
def test_labels_and_membership_can_be_scored_whatever_the_data(name, modality):
    metric = registry.load("metrics", name)()
    truth = Truth.of(torch.tensor([0, 1, 1, 0]), modality)
    assert metric.applies(truth) is None
    guess = truth.values if name in LABELS else truth.values.float()
    assert metric(guess, truth).mean() == 1


ODD = [
    torch.tensor(1.0), torch.tensor(3), torch.zeros(0), torch.zeros(0, dtype=torch.long), torch.zeros(2, 0),
    torch.zeros(2, 3, 4), torch.zeros(1, 1, 1, 1, 1), torch.full((2, 3), torch.nan), torch.zeros(2, dtype=torch.bool),
    torch.zeros(2, 2, dtype=torch.complex64), torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.zeros(3, device="meta"),
    torch.zeros(3, device="meta", dtype=torch.long),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("modality", ["image", "text", "tabular", "sound"])
def test_asking_whether_a_metric_applies_never_raises(name, modality):
    metric: Metric = registry.load("metrics", name)()
    for values in ODD:
        why = metric.applies(Truth(values, modality=modality))
        assert why is None or isinstance(why, str)


def test_the_reason_names_what_is_compared_and_what_there_is():
    assert SSIM().applies(texts([1, 2])) == "SSIM compares images, not texts"
    assert "10x28 pixels are smaller than the 11x11 window" in (SSIM().applies(TRUTHS["small images"][0]) or "")


def test_some_of_a_truth_keeps_its_extras_modality_and_fields():
    whole = Truth(rows(0, 3), {"identity": torch.tensor([7, 8, 9])}, "tabular", FIELDS)
    some = whole.take(torch.tensor([2, 0]))
    assert torch.equal(some.values, whole.values[[2, 0]])
    assert some.extras["identity"].tolist() == [9, 7]
    assert (some.modality, some.fields, len(some)) == ("tabular", FIELDS, 2)
