"""Distance correlation against its definition, summed term by term."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from splitbench.core.errors import SplitbenchError
from splitbench.defenses._penalties.distance_correlation import (
    _distances,
    corrected_distance_correlation,
    distance_correlation,
)


def gaps(rows):
    return [[math.dist(a, b) for b in rows] for a in rows]


def plain(x, y):
    """Székely, Rizzo and Bakirov 2007, definitions 3 and 4."""

    def centred(d):
        n = len(d)
        rows = [sum(row) / n for row in d]
        return [[d[i][j] - rows[i] - rows[j] + sum(rows) / n for j in range(n)] for i in range(n)]

    def product(a, b):
        return sum(p * q for r, s in zip(a, b, strict=True) for p, q in zip(r, s, strict=True)) / len(a) ** 2

    a, b = centred(gaps(x.tolist())), centred(gaps(y.tolist()))
    return math.sqrt(product(a, b)) / math.sqrt(math.sqrt(product(a, a)) * math.sqrt(product(b, b)))


def corrected(x, y):
    """Székely and Rizzo 2013, by U-centred matrices."""

    def centred(d):
        n = len(d)
        rows = [sum(row) for row in d]
        return [
            [
                0.0 if i == j else d[i][j] - (rows[i] + rows[j]) / (n - 2) + sum(rows) / ((n - 1) * (n - 2))
                for j in range(n)
            ]
            for i in range(n)
        ]

    def product(a, b):
        n = len(a)
        return sum(p * q for r, s in zip(a, b, strict=True) for p, q in zip(r, s, strict=True)) / (n * (n - 3))

    a, b = centred(gaps(x.tolist())), centred(gaps(y.tolist()))
    return product(a, b) / math.sqrt(product(a, a) * product(b, b))


def draw(seed, n, wide=3, narrow=2):
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(n, wide, generator=source, dtype=torch.float64)
    mixed = x @ torch.randn(wide, narrow, generator=source, dtype=torch.float64)
    return x, mixed.tanh() + 0.3 * torch.randn(n, narrow, generator=source, dtype=torch.float64)


seeds = st.integers(0, 10_000)


@given(seeds, st.integers(4, 12), st.integers(1, 5), st.integers(1, 5))
def test_both_estimators_equal_their_definitions(seed, n, wide, narrow):
    x, y = draw(seed, n, wide, narrow)
    assert distance_correlation(x, y).item() == pytest.approx(plain(x, y), abs=1e-9)
    assert corrected_distance_correlation(x, y).item() == pytest.approx(corrected(x, y), abs=1e-9)


@given(seeds, st.integers(2, 20), st.floats(1e-3, 1e3), st.floats(-100, 100))
def test_scale_and_place_do_not_matter_and_one_is_the_most(seed, n, scale, shift):
    x, y = draw(seed, n)
    value = distance_correlation(x, y).item()
    assert 0 <= value <= 1 + 1e-9
    assert distance_correlation(x, scale * y + shift).item() == pytest.approx(value, abs=1e-6)


@given(seeds, st.integers(4, 20))
def test_it_is_symmetric_and_one_against_itself(seed, n):
    x, y = draw(seed, n)
    assert distance_correlation(x, y).item() == pytest.approx(distance_correlation(y, x).item(), abs=1e-9)
    assert distance_correlation(x, 3 * x).item() == pytest.approx(1, abs=1e-9)
    assert corrected_distance_correlation(x, 3 * x).item() == pytest.approx(1, abs=1e-9)


def test_only_the_corrected_estimator_tells_independent_vectors_of_high_dimension_apart():
    x, y = torch.randn(2, 64, 3000, generator=torch.Generator().manual_seed(0))
    assert distance_correlation(x, y) > 0.95
    assert abs(corrected_distance_correlation(x, y)) < 0.05


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_are_finite_where_samples_coincide(n, dtype):
    varied, same = torch.rand(n, 400, dtype=dtype), torch.rand(1, 400, dtype=dtype).repeat(n, 1)
    twice = varied.clone()
    twice[n // 2 :] = twice[:1]
    for x, rows in itertools.product((varied, same, twice), repeat=2):
        z = rows.clone().requires_grad_()
        value = distance_correlation(x, z)
        value.backward()
        assert 0 <= value <= 1 + 1e-5
        assert torch.isfinite(z.grad).all()


@given(seeds, st.integers(1, 40))
def test_what_does_not_vary_is_correlated_with_nothing(seed, n):
    source = torch.Generator().manual_seed(seed)
    varied, same = torch.rand(n, 300, generator=source), torch.rand(1, 300, generator=source).repeat(n, 1)
    assert distance_correlation(varied, same) == distance_correlation(same, varied) == 0
    assert distance_correlation(varied[:1], varied[:1]) == 0


@given(seeds, st.sampled_from([1.0, 1e-3, 1e3]))
def test_rows_that_coincide_have_no_distance_in_single_precision(seed, scale):
    rows = scale * torch.rand(12, 4096, generator=torch.Generator().manual_seed(seed))
    twins = _distances(torch.cat([rows, rows]))
    assert not twins.diagonal().any()
    assert not twins.diagonal(12).any()
    assert (twins > 0).sum() == 24 * 22


def test_nan_is_not_taken_for_independence():
    x = torch.rand(6, 5)
    assert distance_correlation(x, x.log() / 0 * 0).isnan()
    assert corrected_distance_correlation(x / 0 * 0, x).isnan()


def test_the_gradient_is_that_of_the_value():
    x, y = draw(3, 6)
    y.requires_grad_()
    assert torch.autograd.gradcheck(lambda z: distance_correlation(x, z), y)
    assert torch.autograd.gradcheck(lambda z: corrected_distance_correlation(x, z), y)


def test_single_precision_is_enough_far_from_the_origin():
    x, y = torch.rand(2, 32, 4096, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = distance_correlation((x + 100).float(), y.float())
    assert_close(near.double(), distance_correlation(x, y), rtol=0, atol=1e-4)


def test_images_are_flattened_and_tokens_are_words():
    x, y = draw(0, 8, 12, 4)
    assert torch.equal(distance_correlation(x.view(8, 3, 2, 2), y), distance_correlation(x, y))
    tokens = torch.randint(0, 7, (8, 5), generator=torch.Generator().manual_seed(0))
    words = torch.nn.functional.one_hot(tokens, 7).double()
    assert_close(distance_correlation(tokens, y), distance_correlation(words, y), rtol=0, atol=1e-6)


def test_the_corrected_estimator_asks_for_four_samples():
    with pytest.raises(SplitbenchError, match="at least 4 samples, got 3"):
        corrected_distance_correlation(torch.rand(3, 2), torch.rand(3, 2))
