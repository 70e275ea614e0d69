"""MSE, PSNR and SSIM against slower and surely right computations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Metric, Truth
from splitbench.metrics.mse import MSE
from splitbench.metrics.mse_signed import MSESigned
from splitbench.metrics.psnr import PSNR
from splitbench.metrics.psnr_signed import PSNRSigned
from splitbench.metrics.ssim import SSIM

EVERY = [MSE(), MSESigned(), PSNR(), PSNRSigned(), SSIM()]


def score(metric: Metric, recovered: Tensor, truth: Tensor) -> Tensor:
    return metric(recovered, Truth.of(truth))


def images(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def by_scikit_image(a: Tensor, b: Tensor) -> list[float]:
    return [
        structural_similarity(
            one.double().numpy(),
            two.double().numpy(),
            win_size=11,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=1,
            channel_axis=0,
        )
        for one, two in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 11, 11), (3, 17, 40), (3, 64, 64)])
def test_ssim_equals_scikit_image_on_random_images(shape):
    truth = images(0, 6, *shape)
    recovered = (truth + 0.2 * images(1, 6, *shape) - 0.1).clamp(0, 1)
    assert score(SSIM(), recovered, truth).tolist() == pytest.approx(by_scikit_image(recovered, truth), abs=1e-5)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "celeba"])
def test_ssim_equals_scikit_image_on_real_images(shared_data, name):
    with np.load(shared_data / f"{name}.npz", allow_pickle=False) as arrays:
        x = torch.from_numpy(arrays["x_test"][:24]).float().div(255)
    x = (x.unsqueeze(-1) if x.ndim == 3 else x).permute(0, 3, 1, 2)
    for recovered in (x.roll(1, 0), x.roll(1, -1), torch.zeros_like(x), x.mean(0, keepdim=True).expand_as(x)):
        assert score(SSIM(), recovered, x).tolist() == pytest.approx(by_scikit_image(recovered, x), abs=1e-5)


def test_ssim_of_nearly_constant_images_does_not_drown_in_rounding():
    truth = 0.9 + 1e-4 * images(0, 4, 1, 32, 32)
    recovered = 0.9 + 1e-4 * images(1, 4, 1, 32, 32)
    assert score(SSIM(), recovered, truth).tolist() == pytest.approx(by_scikit_image(recovered, truth), abs=1e-7)


def test_ssim_does_not_depend_on_how_many_images_are_scored_together():
    truth, recovered = images(0, 300, 1, 11, 11), images(1, 300, 1, 11, 11)
    one_by_one = torch.cat([score(SSIM(), recovered[i : i + 1], truth[i : i + 1]) for i in (0, 255, 256, 299)])
    assert torch.allclose(score(SSIM(), recovered, truth)[[0, 255, 256, 299]], one_by_one, atol=1e-12)


def test_psnr_equals_scikit_image():
    truth, recovered = images(0, 5, 3, 8, 8), images(1, 5, 3, 8, 8)
    expected = [
        peak_signal_noise_ratio(a.double().numpy(), b.double().numpy(), data_range=1)
        for a, b in zip(truth, recovered, strict=True)
    ]
    assert score(PSNR(), recovered, truth).tolist() == pytest.approx(expected, abs=1e-9)


def test_mse_is_the_mean_square_of_every_pixel_and_channel():
    truth, recovered = torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 4, 4)
    recovered[1, 0, 0, 0] = 1
    assert score(MSE(), recovered, truth).tolist() == pytest.approx([0, 1 / 48])


def test_the_signed_forms_are_computed_on_images_from_minus_one_to_one():
    truth, recovered = images(0, 4, 3, 8, 8).double(), images(1, 4, 3, 8, 8).double()
    error = ((2 * recovered - 1) - (2 * truth - 1)).square().flatten(1).mean(1)
    assert torch.allclose(score(MSESigned(), recovered, truth), error, atol=1e-12)
    assert torch.allclose(score(PSNRSigned(), recovered, truth), -10 * error.log10(), atol=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    count=st.integers(1, 5),
    channels=st.sampled_from([1, 3]),
    height=st.integers(11, 20),
    width=st.integers(11, 20),
    seed=st.integers(0, 2**31),
)
def test_a_metric_is_best_against_itself_and_permuting_samples_permutes_scores(count, channels, height, width, seed):
    truth = images(seed, count, channels, height, width)
    recovered = images(seed + 1, count, channels, height, width)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    for metric in EVERY:
        perfect = score(metric, truth, truth)
        scores = score(metric, recovered, truth)
        best = metric.bounds[1] if metric.leaks_when == "high" else metric.bounds[0]
        assert torch.allclose(perfect, torch.full_like(perfect, best))
        assert (scores > perfect).all() if metric.leaks_when == "low" else (scores < perfect).all()
        assert torch.allclose(score(metric, recovered[order], truth[order]), scores[order], atol=1e-12)
        assert scores.shape == (count,)


@pytest.mark.parametrize("metric", EVERY, ids=lambda m: type(m).__name__)
def test_a_nan_pixel_makes_the_score_of_its_image_nan_and_of_no_other(metric: Metric):
    truth = images(0, 3, 1, 16, 16)
    recovered = truth.clone()
    recovered[1, 0, 8, 8] = torch.nan
    for scores in (score(metric, recovered, truth), score(metric, truth, recovered)):
        assert scores.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("metric", EVERY, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    ("recovered", "truth", "said"),
    [
        (torch.zeros(2, 1, 16, 16), torch.zeros(2, 3, 16, 16), r"\(2, 1, 16, 16\).*\(2, 3, 16, 16\)"),
        (torch.zeros(1, 1, 16, 16), torch.zeros(2, 1, 16, 16), r"\(1, 1, 16, 16\)"),
        (torch.zeros(16, 16), torch.zeros(16, 16), r"\(N, C, H, W\)"),
        (torch.zeros(2, 1, 16, 16), torch.zeros(2, 1, 16, 16, dtype=torch.uint8), "divide by 255"),
        (torch.full((2, 1, 16, 16), -1.0), torch.zeros(2, 1, 16, 16), "recovered images hold values such as -1"),
        (torch.zeros(2, 1, 16, 16), torch.full((2, 1, 16, 16), 255.0), "true images hold values such as 255"),
        (torch.full((2, 1, 16, 16), torch.inf), torch.zeros(2, 1, 16, 16), "inf"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_reason(metric: Metric, recovered, truth, said):
    with pytest.raises(SplitbenchError, match=said):
        score(metric, recovered, truth)


def test_an_image_smaller_than_the_window_is_refused_by_ssim_alone():
    small = torch.zeros(2, 1, 10, 28)
    assert score(MSE(), small, small).tolist() == [0, 0]
    with pytest.raises(SplitbenchError, match="10x28 pixels are smaller than the 11x11 window"):
        score(SSIM(), small, small)
