from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitbench.core.component import validated
from splitbench.core.defense import Context
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Batch
from splitbench.core.message import About, Message
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


def batch(x, learning=True):
    rows = torch.arange(len(x))
    return Batch(x, rows, About.plain(0, rows), learning)


@pytest.mark.parametrize("learning", [True, False])
def test_noise_on_images_is_normal_and_what_leaves_is_left_alone(learning):
    defense, x = Gaussian(sigma=2.0, at="inputs"), torch.rand(20, 3, 60, 60)
    given = defense.inputs(batch(x, learning), generator(0))
    noise = ((given.x - x) / 2).double()
    # Of 216,000 draws the mean is within .011 and the deviation within .008 at five standard errors.
    assert abs(noise.mean()) < 0.011
    assert abs(noise.std() - 1) < 0.008
    assert torch.equal(given.y, batch(x).y)
    z = torch.rand(3, 4)
    assert defense.outgoing(message(z), generator(0)).tensor is z
    assert not defense.disguises
    assert not defense.imagined("family", z).disguises


def test_by_default_images_are_given_as_they_are():
    given = batch(torch.rand(2, 3, 4, 4))
    assert Gaussian().inputs(given, generator(0)) is given


@pytest.mark.parametrize("x", [torch.rand(3, 39), torch.randint(30, (3, 12))])
def test_ids_are_not_noised(x):
    defense = Gaussian(at="inputs")
    with pytest.raises(SplitbenchError, match=r"gaussian with at: inputs is for images.*take at: smashed"):
        defense.inputs(batch(x), generator(0))
    with pytest.raises(SplitbenchError, match="is for images"):
        defense.bind(Context(sample=tuple(x.shape[1:])))
    assert Gaussian().bind(Context(sample=tuple(x.shape[1:]))) == Gaussian()


def test_noise_goes_to_one_of_two_places():
    _, mistakes = validated(Gaussian, {"at": "labels"}, "")
    assert [m.where for m in mistakes] == ["at"]
