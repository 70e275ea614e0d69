"""What the aligning attacks are made of, against slow and obvious versions of the same."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import grad

from splitbench.attacks._alignment.critic import Critic, _penalty, fooling, judged
from splitbench.attacks._alignment.matching import settled
from splitbench.attacks._alignment.mmd import mk_mmd
from splitbench.attacks._alignment.moments import Moments
from splitbench.attacks._alignment.substitute import Substitute
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.training import Pairs, fitting_noise
from splitbench.attacks._steps.descent import shuffled
from splitbench.core.layout import Layout, by_rank
from splitbench.core.randomness import generator, seeded
from tests.attacks._scene import images


def slow_mmd(fixed: Tensor, learned: Tensor) -> tuple[Tensor, Tensor]:
    """Pair by pair, as the formula reads: what depends on the learned set, and the term of the fixed one."""
    a, b = fixed.flatten(1), learned.flatten(1)
    every = [*a, *b]
    distances = [(p - q).square().sum() for i, p in enumerate(every) for j, q in enumerate(every) if i != j]
    mean = torch.stack(distances).mean().detach()

    def kernel(p: Tensor, q: Tensor) -> Tensor:
        return torch.stack([torch.exp(-(p - q).square().sum() / (2.0**k * mean)) for k in range(-3, 2)]).sum()

    def within(rows: Tensor) -> Tensor:
        pairs = [kernel(p, q) for i, p in enumerate(rows) for j, q in enumerate(rows) if i != j]
        return torch.stack(pairs).mean()

    return within(b) - 2 * torch.stack([kernel(p, q) for p in a for q in b]).mean(), within(a)


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(1, 5), st.integers(0, 2**31))
def test_mk_mmd_and_its_slope_equal_the_loop_over_pairs(n: int, m: int, size: int, seed: int) -> None:
    draws = generator(seed)
    a = torch.randn(n, size, generator=draws).double()
    b = (1 + torch.randn(m, size, generator=draws).double()).requires_grad_()
    fast, (slow, _) = mk_mmd(a, b), slow_mmd(a, b)
    assert fast.item() == pytest.approx(slow.item(), abs=1e-9)
    torch.testing.assert_close(grad(3 * fast, b), grad(3 * slow, b), rtol=0, atol=1e-9)


def test_mk_mmd_is_large_for_different_sets_and_about_zero_for_like_ones() -> None:
    draws = generator(0)
    one, two = (torch.randn(64, 8, generator=draws) for _ in range(2))
    like, different = (mk_mmd(one, other) + slow_mmd(one, other)[1] for other in (two, two + 1))
    assert abs(like.item()) < 0.05 < different.item()


def test_mk_mmd_of_samples_that_are_all_alike_is_a_number() -> None:
    alike = (1e3 + torch.zeros(4, 300)).requires_grad_()
    value = mk_mmd(alike.detach(), alike)
    assert torch.isfinite(value)
    assert torch.isfinite(grad(value, alike)[0]).all()


class Slope(Critic):
    """A critic whose slope is known: three times the sum of all features."""

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        return 3 * z.flatten(1).sum(1)


def test_the_penalty_is_about_the_slope_of_a_sample_or_of_each_of_its_channels() -> None:
    critic = Slope(Grid(4, 2, 2), 4, 0)
    real, made = torch.randn(5, 4, 2, 2), torch.randn(7, 4, 2, 2)
    assert _penalty(critic, real, made, "flat", generator(0)).item() == pytest.approx((3 * 4 - 1) ** 2, rel=1e-5)
    assert _penalty(critic, real, made, "per_channel", generator(0)).item() == pytest.approx((3 * 2 - 1) ** 2, rel=1e-5)


def test_a_discriminator_in_doubt_has_the_loss_of_a_coin_and_labels_reach_it() -> None:
    with seeded(0):
        critic = Critic(Grid(4, 6, 6), 8, 1, labels=3)
    z, one, two = torch.randn(5, 4, 6, 6), torch.eye(3)[[0] * 5], torch.eye(3)[[1] * 5]
    assert not torch.equal(critic(z, one), critic(z, two))
    for parameter in critic.parameters():
        nn.init.zeros_(parameter)
    assert judged(critic, (z, one), (z, two)).item() == pytest.approx(math.log(2))
    assert fooling(critic, (z, one)).item() == pytest.approx(math.log(2))


def test_moments_tell_a_feature_from_its_negative_and_from_its_neighbour() -> None:
    x, _ = images(200, 0)
    maps = torch.cat((x, 2 * x + 1), 1)
    own = Moments.of(maps)
    assert own.apart(own).item() == 0
    assert Moments.of(-maps).apart(own).item() > 1
    assert Moments.of(maps.flip(1)).apart(own).item() > 0.5
    centred = maps - maps.mean((0, 2, 3), keepdim=True)
    slow = torch.einsum("nchw,ndhw->cd", centred, centred) / centred[:, 0].numel()
    torch.testing.assert_close(own.covariance[0], slow, rtol=1e-4, atol=1e-5)


def test_covariances_of_large_maps_are_those_at_a_grid_of_their_places() -> None:
    maps = torch.randn(6, 3, 33, 40, generator=generator(0, "maps"))  # 1,320 places: every second each way
    centred = maps - maps.mean((0, 2, 3), keepdim=True)
    for found, (down, right) in zip(Moments.of(maps).covariance, ((0, 0), (0, 1), (1, 0)), strict=True):
        pairs = [
            torch.outer(image[:, i + down, j + right], image[:, i, j])
            for image in centred
            for i in range(0, 33 - down, 2)
            for j in range(0, 40 - right, 2)
        ]
        torch.testing.assert_close(found, torch.stack(pairs).mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layout", "image"),
    [
        (by_rank((8, 14, 14)), (1, 28, 28)),
        (by_rank((5, 7, 7)), (3, 32, 32)),
        (Layout("tokens", (17, 6), prefix=1, grid=(4, 4)), (3, 16, 16)),
        (Layout("tokens", (17, 6)), (3, 16, 16)),
        (by_rank((12,)), (1, 9, 9)),
    ],
)
def test_a_substitute_sends_what_was_observed_in_shape(layout: Layout, image: tuple[int, ...]) -> None:
    for rectified in (False, True):
        made = Substitute(Grid.of(layout), image, rectified, blocks=1)
        sent = made(torch.rand(3, *image))
        assert sent.shape == (3, *layout.shape)
        assert not rectified or bool((sent >= 0).all())
        made._copy_pixels()  # whatever the shape, a pixel for each channel
        conv = made.layers[0]
        assert isinstance(conv, nn.Conv2d)
        assert conv.weight.flatten(1).sum(1).tolist() == [1.0] * len(conv.weight)


def test_batches_are_whole_and_every_row_comes_once_in_a_round() -> None:
    batches = shuffled(torch.zeros(10), 4, generator(0))
    first = [next(batches) for _ in range(2)]
    assert [len(rows) for rows in first] == [4, 4]
    assert len(set(torch.cat(first).tolist())) == 8
    few = shuffled(torch.zeros(3), 8, generator(0))
    assert sorted(next(few).tolist()) == [0, 1, 2]


def test_settled_batch_norm_has_the_statistics_of_the_images() -> None:
    x = 5 + 2 * torch.randn(300, 2, 4, 4, generator=generator(0))
    norm = nn.BatchNorm2d(2)
    settled(nn.Sequential(norm), x)
    assert not norm.training
    assert norm.momentum == 0.1
    torch.testing.assert_close(norm.running_mean, x.mean((0, 2, 3)), atol=0.05, rtol=0)


def test_noise_fits_what_is_wrong_with_a_client() -> None:
    with seeded(0):
        true = nn.Conv2d(1, 8, 5, padding=2).requires_grad_(False)
        wrong = nn.Conv2d(1, 8, 5, padding=2).requires_grad_(False)
        near = nn.Conv2d(1, 8, 5, padding=2).requires_grad_(False)
        near.load_state_dict({k: v + 0.01 * torch.randn_like(v) for k, v in true.state_dict().items()})
    x, _ = images(200, 0)
    targets = true(images(32, 1)[0])
    with seeded(1):
        found = [fitting_noise(Pairs(client(x), x), client, targets) for client in (true, near, wrong)]
    assert found[0] < 0.02
    assert found[0] < found[1] < found[2]
