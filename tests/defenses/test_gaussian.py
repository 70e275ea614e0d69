from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.component import validated
from splitbench.core.message import Message
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator
from splitbench.defenses.gaussian import Gaussian


def message(z, kind="smashed"):
    return Message(CLIENT, SERVER, kind, z)


def noisy(sigma, z, seed=0):
    return Gaussian(sigma=sigma).outgoing(message(z), torch.Generator().manual_seed(seed)).tensor


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 2**31))
def test_zero_noise_changes_nothing(shape, seed):
    z = torch.randn(shape)
    assert torch.equal(noisy(0.0, z, seed), z)


@pytest.mark.parametrize("sigma", [0.01, 0.5, 3.0])
def test_the_noise_is_normal_with_the_deviation_asked_for(sigma):
    z = torch.rand(400, 500)
    noise = ((noisy(sigma, z) - z) / sigma).double().flatten()
    # Of 200,000 draws the mean is within .011 and the deviation within .008 at five standard errors.
    assert abs(noise.mean()) < 0.012
    assert abs(noise.std() - 1) < 0.008
    assert abs((noise.abs() < 1).double().mean() - 0.6827) < 0.006
    assert abs(torch.corrcoef(torch.stack([noise[:-1], noise[1:]]))[0, 1]) < 0.012


def test_the_same_seed_gives_the_same_bytes_and_another_does_not():
    z = torch.zeros(3, 4)
    assert torch.equal(noisy(1.0, z, 1), noisy(1.0, z, 1))
    assert not torch.equal(noisy(1.0, z, 1), noisy(1.0, z, 2))


def test_noise_is_fresh_for_every_message():
    draws = generator(0)
    assert not torch.equal(*(Gaussian().outgoing(message(torch.zeros(5)), draws).tensor for _ in range(2)))


def test_the_mean_of_many_rounds_is_what_was_hidden():
    z, draws = torch.rand(3, 4), generator(0)
    rounds = torch.stack([Gaussian(sigma=1.0).outgoing(message(z), draws).tensor for _ in range(10_000)])
    merged = Gaussian(sigma=1.0).imagined("exact", z).merge(rounds)
    torch.testing.assert_close(merged, z, rtol=0, atol=0.05)  # five standard errors


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    noisy(1.0, torch.zeros(5))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", ["label", "gradient", "weights"])
def test_only_smashed_data_is_noisy(kind):
    z = torch.zeros(4)
    assert Gaussian().outgoing(message(z, kind), None).tensor is z


def test_noise_has_the_precision_of_the_smashed_data_and_passes_the_gradient():
    z = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    sent = Gaussian().outgoing(message(z), None).tensor
    sent.sum().backward()
    assert sent.dtype == torch.float64
    assert torch.equal(z.grad, torch.ones(4, dtype=torch.float64))


def test_negative_noise_is_a_mistake():
    _, mistakes = validated(Gaussian, {"sigma": -0.1}, "defenses[0]")
    assert [(m.where, "greater than or equal to 0" in m.what) for m in mistakes] == [("defenses[0].sigma", True)]
