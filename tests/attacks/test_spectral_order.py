"""A spectrum's symmetry puts its patches in order, and where that is gone, its magnitudes do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from splitbench.attacks._spectral.crops import Crops, opposite
from splitbench.attacks._spectral.sorting import by_symmetry
from splitbench.attacks.spectral_order import SpectralOrder
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from splitbench.methods.shuffling.orders import across_batch, within_images
from splitbench.methods.shuffling.patches import patched, unpatched
from splitbench.methods.shuffling.spectrum import spectral_patches
from splitbench.metrics.ssim import SSIM

Sends = Callable[[Tensor], Tensor]


def smooth(count: int, side: int, channels: int = 3, seed: int = 0) -> Tensor:
    """Images with the falling spectrum of natural ones, each frequency of another strength in each image."""
    draws = generator(seed, "smooth")
    noise = torch.fft.fft2(torch.randn(count, channels, side, side, generator=draws))
    steps = torch.fft.fftfreq(side) * side
    spectrum = noise / (1 + steps[:, None].square() + 1.5 * steps.square()) ** 0.75
    x = torch.fft.ifft2(spectrum).real
    return 0.5 + 0.15 * x / x.std((1, 2, 3), keepdim=True)


def folded(side: int, grid: int) -> Sends:
    """R2: an embedding with 3 p^2 values, folded to an image of three channels before the transform."""
    p = side // grid
    draws = generator(4, "embedding")
    weight, bias = torch.randn(3 * p * p, 3 * p * p, generator=draws) / p, torch.randn(3 * p * p, generator=draws) / p

    def sends(x: Tensor) -> Tensor:
        return spectral_patches(
            unpatched(patched(x, grid, grid) @ weight + bias, (3, side, side), grid, grid), grid, grid
        )

    return sends


@contextmanager
def shuffled(
    x: Tensor,
    grid: int,
    sends: Sends | None = None,
    public: Tensor | None = None,
    batch: int = 1,
    rounds: int = 1,
    change: Sends = lambda z: z,
) -> Iterator[View]:
    """What a client with spectral shuffling sends of x, and answers to queries if there are public images."""
    draws = generator(1, "shuffle")
    spectra = sends or (lambda x: spectral_patches(x, grid, grid))

    def shuffle(z: Tensor) -> Tensor:
        count, places = z.shape[:2]
        alone = batch == 1 or count == 1
        order = within_images(count, places, draws) if alone else across_batch(count, places, places // 2, draws)
        return change(z.flatten(0, 1)[order])

    def client(x: Tensor) -> Tensor:
        size = batch if batch > 1 else len(x)
        return torch.stack([torch.cat([shuffle(z) for z in spectra(x).split(size)]) for _ in range(rounds)])

    sent = client(x)
    with Query.open(client, len(public) if public is not None else 0) as query:
        yield View(
            threat=ThreatModel(),
            targets=sent,
            shape=tuple(x.shape[1:]),
            classes=2,
            stages=[],
            layout=Layout("tokens", tuple(sent.shape[2:]), 0, (sent.shape[2] // grid, grid)),
            batch=batch,
            auxiliary=Auxiliary(public, torch.zeros(len(public))) if public is not None else None,
            query=query if public is not None else None,
        )


def found(view: View, **settings: str) -> Tensor:
    recovered = SpectralOrder(**settings).run(view, generator(2, "attack")).inputs  # type: ignore[arg-type]
    assert recovered is not None
    return recovered


def error(view: View, x: Tensor, **settings: str) -> Tensor:
    return (found(view, **settings) - x).square().mean((1, 2, 3))


@pytest.mark.parametrize(("side", "grid", "channels"), [(64, 4, 3), (64, 8, 3), (224, 14, 3), (32, 8, 1), (40, 5, 3)])
def test_images_come_back_exactly_without_training_or_data(side: int, grid: int, channels: int) -> None:
    x = smooth(4, side, channels)
    with shuffled(x, grid) as view:
        assert error(view, x).max() < 1e-10


def test_nothing_about_images_is_used_but_which_half_of_their_spectrum_is_louder() -> None:
    x = torch.rand(6, 3, 32, 32, generator=generator(0, "noise"))
    with shuffled(x, 8) as view:
        assert error(view, x).max() < 1e-10


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 5), st.integers(2, 5), st.sampled_from([2, 4, 6]), st.sampled_from([2, 4]), st.integers(0, 99))
def test_crops_are_sorted_on_any_even_grid(rows: int, columns: int, height: int, width: int, seed: int) -> None:
    draws = generator(seed, "crops")
    x = 0.5 + torch.rand(2, 3, rows * height, columns * width, generator=draws)
    true = spectral_patches(x, rows, columns)
    mixed = torch.stack([z[torch.randperm(len(z), generator=draws)] for z in true])
    crops = Crops(3, rows, columns, height, width)
    sorted_ = by_symmetry(mixed, crops)
    matches = torch.stack([(crops.shifted(sorted_, by) - true).abs().amax((1, 2)) for by in crops.shifts])
    assert matches.amin(0).max() < 1e-6


@pytest.mark.parametrize("side", [6, 7, 16])
def test_a_real_image_has_conjugate_values_at_opposite_frequencies(side: int) -> None:
    x = torch.rand(2, 3, side, side, generator=generator(0, "real"))
    spectra = torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))
    torch.testing.assert_close(spectra, opposite(spectra))
    complex_image = torch.complex(x, x.flip(0))
    spectra = torch.fft.fftshift(torch.fft.fft2(complex_image, norm="ortho"), dim=(-2, -1))
    assert (spectra - opposite(spectra)).abs().max() > 0.1


def test_crops_as_spectra_and_back() -> None:
    x = smooth(2, 32)
    crops, tokens = Crops(3, 4, 4, 8, 8), spectral_patches(x, 4, 4)
    torch.testing.assert_close(crops.tokens(crops.spectra(tokens)), tokens)
    torch.testing.assert_close(crops.images(tokens), x)
    assert crops.asymmetry(tokens).max() < 1e-10
    assert crops.asymmetry(tokens.flip(1)).min() > 0.01


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_does_not_hide_it(dtype: torch.dtype) -> None:
    x = smooth(8, 64)
    with shuffled(x, 8, change=lambda z: z.to(dtype).float()) as view:
        assert error(view, x).max() < 1e-4


def test_noise_costs_little_more_than_the_noise_itself() -> None:
    x = smooth(32, 32)
    draws = generator(5, "noise")

    def noisy(z: Tensor) -> Tensor:
        return z + 0.05 * torch.randn(z.shape, generator=draws)

    with shuffled(x, 4, change=noisy) as view:
        unordered = (smooth(32, 32, seed=9) - x).square().mean()
        alone = error(view, x).mean()
    assert alone < 3 * 0.05**2 < 0.5 * unordered
    with shuffled(x, 4, change=noisy, public=smooth(256, 32, seed=7)) as view:
        assert error(view, x).mean() < alone, "pairs tell how to take the noise off"


def test_rounds_average_noise_away() -> None:
    x = smooth(16, 32)
    draws = generator(5, "noise")

    def noisy(z: Tensor) -> Tensor:
        return z + 0.01 * torch.randn(z.shape, generator=draws)

    errors = []
    for rounds in (1, 8):
        with shuffled(x, 4, change=noisy, rounds=rounds) as view:
            errors.append(error(view, x).mean())
    assert errors[1] < errors[0] / 4


def test_half_a_spectrum_is_sorted_by_its_magnitudes() -> None:
    """A client that keeps the right half of the spectrum back; the left says what it was."""
    x, grid = smooth(32, 32), 4

    def half(x: Tensor) -> Tensor:
        spectra = torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))
        spectra[..., 17:] = 0
        return patched(torch.cat((spectra.real, spectra.imag), 1), grid, grid)

    crops = Crops(3, 4, 4, 8, 8)
    torch.testing.assert_close(crops.images(half(x)), x)
    blind = (x.mean(0) - x).square().mean()
    with shuffled(x, grid, half, public=smooth(256, 32, seed=7)) as view:
        assert error(view, x).median() < 0.05 * blind
    with shuffled(x, grid, half) as view:
        assert error(view, x).median() > 0.2 * blind, "symmetry alone has nothing to go by"


def lower(grid: int) -> Sends:
    """A client that sends the rows of crops from frequency zero on."""
    return lambda x: spectral_patches(x, grid, grid)[:, grid * grid // 2 :]


def without_highest_row(x: Tensor) -> Tensor:
    signs = torch.ones(x.shape[2], 1)
    signs[1::2] = -1
    return x - signs * (x * signs).mean(2, keepdim=True)


@pytest.mark.parametrize("grid", [4, 8])
def test_half_of_the_crops_in_their_places_are_the_image_without_its_highest_row(grid: int) -> None:
    x = torch.rand(4, 3, 32, 32, generator=generator(0, "noise"))
    crops = Crops.of(Layout("tokens", (grid**2 // 2, 6 * (32 // grid) ** 2), 0, (grid // 2, grid)), (3, 32, 32), 3)
    assert crops == Crops(3, grid, grid, 32 // grid, 32 // grid, half=True)
    torch.testing.assert_close(crops.sent(x), lower(grid)(x))
    torch.testing.assert_close(crops.images(crops.sent(x)), without_highest_row(x), atol=1e-5, rtol=1e-5)


def test_half_of_the_crops_are_told_from_all_of_larger_ones_and_from_other_tokens() -> None:
    def told(places: int, values: int, prefix: int, grid: tuple[int, int] | None) -> Crops | None:
        return Crops.of(Layout("tokens", (places + prefix, values), prefix, grid), (3, 32, 32), 3)

    assert told(16, 384, 0, (4, 4)) == Crops(3, 4, 4, 8, 8)
    assert told(8, 768, 0, (2, 4)) == Crops(3, 2, 4, 16, 8), "8 crops can be a whole spectrum as well"
    assert told(8, 384, 0, (2, 4)) == told(8, 384, 0, None) == Crops(3, 4, 4, 8, 8, half=True)
    assert told(8, 384, 1, (2, 4)) is None, "no network begins before a spectrum, and with it a class token"
    assert told(8, 383, 0, (2, 4)) is None


def test_crops_of_half_a_spectrum_are_sorted_by_their_magnitudes() -> None:
    x, public = smooth(32, 32), smooth(256, 32, seed=7)
    blind = (x.mean(0) - x).square().mean()
    with shuffled(x, 4, lower(4), public=public) as view:
        assert error(view, x).median() < 0.05 * blind
    with shuffled(x, 4, lower(4)) as view, pytest.raises(SplitbenchError, match="8 x 8 of half of a spectrum of 32"):
        found(view)


def test_half_a_spectrum_of_a_folded_embedding_is_inverted_as_it_lies() -> None:
    x, public = smooth(16, 32), smooth(128, 32, seed=7)
    with shuffled(x, 4, lambda x: folded(32, 4)(x)[:, 8:], public=public) as view:
        assert error(view, x).mean() < 1.5 * (x.mean(0) - x).square().mean()


@pytest.mark.parametrize(("grid", "least"), [(4, 0.98), (8, 0.80)])
def test_half_the_spectra_of_real_faces_do_not_hide_them(grid: int, least: float, shared_data: Path) -> None:
    with np.load(shared_data / "celeba.npz") as arrays:
        x = torch.from_numpy(arrays["x_test"][:25]).permute(0, 3, 1, 2).float() / 255
        public = torch.from_numpy(arrays["x_train"][:1000]).permute(0, 3, 1, 2).float() / 255
    with shuffled(x, grid, lower(grid), public=public) as view:
        assert SSIM()(found(view).clamp(0, 1), Truth.of(x)).mean() > least


def test_of_a_folded_embedding_queries_tell_the_inverse() -> None:
    x = smooth(24, 32)
    for grid in (4, 8):
        with shuffled(x, grid, folded(32, grid), public=smooth(256, 32, seed=7)) as view:
            assert error(view, x).max() < 1e-4
        with shuffled(x, grid, folded(32, grid), public=smooth(256, 32, seed=7)) as view:
            assert error(view, x, reading="R1").mean() > 1e-2, "it is another reading"


@pytest.mark.parametrize("reading", ["R1", "R2"])
def test_tokens_of_a_whole_batch_find_their_images(reading: str) -> None:
    x, grid = smooth(20, 32), 4
    public = smooth(96, 32, seed=7)
    with shuffled(x, grid, folded(32, grid) if reading == "R2" else None, public, batch=8) as view:
        assert error(view, x).max() < 1e-4


def test_tokens_that_are_no_spectrum_are_inverted_in_the_order_they_have() -> None:
    """The undefended twin, by which the attack is calibrated; tokens of a width that a spectrum could have."""
    x, grid = smooth(16, 32), 4
    weight = torch.randn(192, 384, generator=generator(3, "weight")) / 14
    public = smooth(256, 32, seed=7)

    def sends(x: Tensor) -> Tensor:
        return (patched(x, grid, grid) @ weight)[None]

    with Query.open(sends, 256) as query, shuffled(x, grid, public=public) as view:
        plain = View(
            threat=ThreatModel(), targets=sends(x), shape=(3, 32, 32), classes=2, stages=[],
            layout=view.layout, auxiliary=view.auxiliary, query=query,
        )  # fmt: skip
        assert error(plain, x).max() < 1e-3


def test_what_is_no_spectrum_needs_pairs_and_says_so() -> None:
    view = View(threat=ThreatModel(), targets=smooth(4, 32)[None], shape=(3, 32, 32), classes=2, stages=[])
    with pytest.raises(SplitbenchError, match="grant auxiliary samples and queries"):
        found(view)


def test_crops_that_symmetry_does_not_tie_need_public_images_and_say_so() -> None:
    x = smooth(8, 21)
    with shuffled(x, 3) as view, pytest.raises(SplitbenchError, match="not tied by symmetry"):
        found(view)
    with shuffled(x, 3, public=smooth(256, 21, seed=7)) as view:
        assert error(view, x).median() < 1e-6


@pytest.mark.parametrize("grid", [4, 8])
def test_real_faces_come_back_exactly(grid: int, shared_data: Path) -> None:
    with np.load(shared_data / "celeba.npz") as arrays:
        x = torch.from_numpy(arrays["x_test"][:50]).permute(0, 3, 1, 2).float() / 255
    with shuffled(x, grid) as view:
        assert error(view, x).max() < 1e-10
