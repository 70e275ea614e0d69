"""Which client holds which samples."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import generator
from splitbench.data._allocation.partition import dirichlet, iid, partition

labelled = st.lists(st.integers(0, 9), min_size=1, max_size=200).map(torch.tensor)
alphas = st.floats(1e-4, 1e4)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["iid", "dirichlet"]), labelled, st.integers(1, 30), alphas, st.integers(0, 9))
def test_every_sample_goes_to_one_client_and_every_client_has_some(kind, labels, clients, alpha, seed):
    assume(clients <= len(labels))
    parts = partition(kind, labels, clients, alpha, generator(seed))
    assert len(parts) == clients
    assert all(len(part) > 0 and part.dtype == torch.int64 for part in parts)
    assert torch.cat(parts).sort().values.tolist() == list(range(len(labels)))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["iid", "dirichlet"]), labelled, st.integers(0, 9))
def test_the_same_seed_gives_the_same_parts(kind, labels, seed):
    clients = min(3, len(labels))
    first, second = (partition(kind, labels, clients, 0.5, generator(seed)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@given(labelled, st.integers(1, 30))
def test_independent_shares_are_equal_to_within_one(labels, clients):
    assume(clients <= len(labels))
    sizes = [len(part) for part in iid(labels, clients, generator(0))]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
def test_another_seed_gives_other_parts(kind):
    labels = torch.arange(200) % 10
    first, second = (partition(kind, labels, 4, 0.5, generator(seed)) for seed in (0, 1))
    assert any(len(a) != len(b) or not torch.equal(a, b) for a, b in zip(first, second, strict=True))


def shares(labels, parts, classes=10):
    """(clients, classes): how each class is shared out."""
    counts = torch.stack([torch.bincount(labels[part], minlength=classes) for part in parts]).double()
    return counts / counts.sum(0)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0])
def test_the_shares_of_a_class_have_the_variance_of_a_dirichlet(alpha):
    """Of Dir(alpha, ..., alpha) over k clients, a share has mean 1/k and variance (1/k)(1 - 1/k) / (k alpha + 1)."""
    clients, labels = 5, torch.arange(20_000) % 200
    found = shares(labels, dirichlet(labels, clients, alpha, generator(3)), 200)
    expected = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    assert abs(found.mean() - 1 / clients) < 1e-9
    assert abs(found.var() / expected - 1) < 0.15


def test_a_large_alpha_is_even_and_a_small_one_gives_a_class_to_one_client():
    labels = torch.arange(5000) % 10
    assert (shares(labels, dirichlet(labels, 5, 1e6, generator(0))) - 0.2).abs().max() < 0.01
    assert shares(labels, dirichlet(labels, 5, 1e-3, generator(0))).max(0).values.min() > 0.95


def test_samples_with_several_attributes_go_by_their_first():
    first = torch.arange(400) % 2
    attributes = torch.stack([first, torch.arange(400) % 3 == 0], 1).float()
    with_all, with_one = dirichlet(attributes, 4, 0.3, generator(0)), dirichlet(first, 4, 0.3, generator(0))
    assert all(torch.equal(a, b) for a, b in zip(with_all, with_one, strict=True))


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
@pytest.mark.parametrize(
    ("clients", "said"), [(0, "at least one client"), (11, "10 samples cannot be shared among 11")]
)
def test_an_impossible_number_of_clients_is_refused(kind, clients, said):
    with pytest.raises(SplitbenchError, match=said):
        partition(kind, torch.arange(10), clients, 0.5, generator(0))


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_an_alpha_that_is_no_concentration_is_refused(alpha):
    with pytest.raises(SplitbenchError, match="above 0"):
        dirichlet(torch.arange(10), 2, alpha, generator(0))


def test_a_misspelt_kind_gets_the_nearest_name():
    with pytest.raises(SplitbenchError, match="no partition named 'diriclet'; did you mean 'dirichlet'"):
        partition("diriclet", torch.arange(10), 2, 0.5, generator(0))
