"""Patches put where they fit best, against trying every order."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from splitbench.core.metric import Truth
from splitbench.methods.shuffling.patches import patched, unpatched
from splitbench.metrics.mse import MSE
from splitbench.metrics.patch_mse import PatchMSE
from splitbench.metrics.patch_ssim import PatchSSIM
from splitbench.metrics.position_accuracy import PositionAccuracy
from splitbench.metrics.ssim import SSIM

EVERY = [PatchMSE(), PatchSSIM(), PositionAccuracy()]


def images(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def reordered(x: Tensor, order: Tensor, side: int) -> Tensor:
    """Images whose place j shows the patch of place order[j]."""
    rows, columns = x.shape[-2] // side, x.shape[-1] // side
    pieces = patched(x, rows, columns)
    order = order.expand(len(x), -1)
    return unpatched(pieces.gather(1, order[:, :, None].expand_as(pieces)), x.shape[1:], rows, columns)


def every_order(recovered: Tensor, truth: Tensor, side: int) -> list[tuple[Tensor, Tensor]]:
    """All that can be made of one recovered image, each with its squared error."""
    length = (truth.shape[-2] // side) * (truth.shape[-1] // side)
    made = [reordered(recovered[None], torch.tensor(p), side)[0] for p in itertools.permutations(range(length))]
    return [(one, (one - truth).square().mean()) for one in made]


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from([(12, 12, 6), (12, 24, 12), (8, 16, 8)]))
def test_the_best_of_all_orders_is_found(seed, shape):
    height, width, side = shape
    truth, recovered = images(seed, 3, 2, height, width).double(), images(seed + 1, 3, 2, height, width).double()
    best = [min(every_order(r, t, side), key=lambda one: one[1].item()) for r, t in zip(recovered, truth, strict=True)]
    errors = PatchMSE(side)(recovered, Truth.of(truth))
    assert torch.allclose(errors, torch.stack([error for _, error in best]), atol=1e-9)
    assert (errors <= MSE()(recovered, Truth.of(truth)) + 1e-12).all()
    if height >= 11:
        rebuilt = torch.stack([one for one, _ in best])
        expected = SSIM()(rebuilt, Truth.of(truth))
        assert torch.allclose(PatchSSIM(side)(recovered, Truth.of(truth)), expected, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 32, 48)])
def test_patches_that_are_only_out_of_order_are_perfect_as_a_set_and_rarely_in_their_place(shape):
    truth = images(0, 5, *shape)
    length = shape[1] * shape[2] // 64
    order = torch.randperm(length, generator=torch.Generator().manual_seed(1))
    recovered = reordered(truth, order, 8)
    assert torch.allclose(PatchMSE()(recovered, Truth.of(truth)), torch.zeros(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(PatchSSIM()(recovered, Truth.of(truth)), torch.ones(5, dtype=torch.float64), atol=1e-9)
    inside = (order == torch.arange(length)).double().mean().item()
    assert inside < 0.5
    assert PositionAccuracy()(recovered, Truth.of(truth)).tolist() == pytest.approx([inside] * 5)


@pytest.mark.parametrize(
    ("order", "share"), [([0, 1, 2, 3], 1), ([1, 0, 2, 3], 0.5), ([1, 2, 0, 3], 0.25), ([3, 2, 1, 0], 0)]
)
def test_position_accuracy_counts_the_places_that_a_permutation_leaves(order, share):
    truth = images(0, 2, 3, 16, 16)
    recovered = (reordered(truth, torch.tensor(order), 8) + 0.1 * images(1, 2, 3, 16, 16) - 0.05).clamp(0, 1)
    assert PositionAccuracy()(recovered, Truth.of(truth)).tolist() == [share, share]


def test_equal_patches_may_stand_for_one_another():
    truth = images(0, 1, 1, 16, 16)
    truth[..., :8, :] = 0.75  # two blank patches
    swapped = reordered(truth, torch.tensor([1, 0, 2, 3]), 8)
    assert PositionAccuracy()(swapped, Truth.of(truth)).item() == 1
    assert PositionAccuracy()(reordered(truth, torch.tensor([1, 0, 3, 2]), 8), Truth.of(truth)).item() == 0.5
    # Of two blank patches that are not the same, one is brighter by what an eight-bit image can show.
    truth[..., :8, :8] += 1 / 255
    assert PositionAccuracy()(reordered(truth, torch.tensor([1, 0, 2, 3]), 8), Truth.of(truth)).item() == 0.5


@pytest.mark.parametrize("guess", [0.0, 0.5, 1.0])
def test_a_guess_that_is_the_same_everywhere_has_nothing_in_its_place(guess):
    truth = images(0, 4, 3, 32, 32)
    flat = torch.full_like(truth, guess)
    assert PositionAccuracy()(flat, Truth.of(truth)).max() <= 1 / 16
    # No order of equal patches is better than another.
    assert torch.allclose(PatchMSE()(flat, Truth.of(truth)), MSE()(flat, Truth.of(truth)))
    assert torch.allclose(PatchSSIM()(flat, Truth.of(truth)), SSIM()(flat, Truth.of(truth)))


@pytest.mark.parametrize("metric", EVERY, ids=lambda m: type(m).__name__)
def test_samples_are_scored_one_by_one(metric):
    truth, recovered = images(0, 4, 3, 16, 24), images(1, 4, 3, 16, 24)
    together = metric(recovered, Truth.of(truth))
    alone = torch.cat([metric(recovered[i : i + 1], Truth.of(truth[i : i + 1])) for i in range(4)])
    assert together.shape == (4,)
    assert torch.allclose(together, alone, atol=1e-12)
    perfect = metric(truth, Truth.of(truth))
    best = metric.bounds[1] if metric.leaks_when == "high" else metric.bounds[0]
    assert torch.allclose(perfect, torch.full_like(perfect, best), atol=1e-9)


@pytest.mark.parametrize("metric", EVERY, ids=lambda m: type(m).__name__)
def test_a_nan_pixel_makes_the_score_of_its_image_nan_and_of_no_other(metric):
    truth = images(0, 3, 1, 16, 16)
    recovered = truth.clone()
    recovered[1, 0, 8, 8] = torch.nan
    for a, b in ((recovered, truth), (truth, recovered)):
        assert metric(a, Truth.of(b)).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [PatchMSE, PatchSSIM, PositionAccuracy])
def test_a_patch_that_does_not_divide_the_image_is_refused_by_its_size(kind):
    truth = Truth.of(images(0, 1, 3, 32, 40))
    assert kind(8).applies(truth) is None
    assert kind(16).applies(truth) == "images of 32 x 40 pixels cannot be cut into patches of 16 x 16"
