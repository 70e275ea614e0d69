"""What a decoder is made of: the layout of features, the linear inverse, the network that corrects it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from splitbench.attacks._decoding.decoder import Decoder
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.linear_inverse import LinearInverse
from splitbench.attacks._decoding.training import Pairs, Training, decoded, trained_decoder
from splitbench.core.layout import Layout, by_rank
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout("maps", (64, 14, 14)), Grid(64, 14, 14)),
        (Layout("tokens", (64, 192), grid=(8, 8)), Grid(192, 8, 8, 0, tokens=True)),
        (Layout("tokens", (66, 192), prefix=2, grid=(8, 8)), Grid(192, 8, 8, 2, tokens=True)),
        (Layout("tokens", (33, 16), prefix=1, grid=(4, 8)), Grid(16, 4, 8, 1, tokens=True)),
        (Layout("tokens", (60, 16)), Grid(960, 1, 1)),  # nobody says where they are
        (Layout("fields", (4, 8)), Grid(32, 1, 1)),
        (Layout("vector", (512,)), Grid(512, 1, 1)),
    ],
)
def test_smashed_data_are_laid_over_the_image(layout, expected):
    assert Grid.of(layout) == expected
    view = View(ThreatModel(), torch.zeros(1, 2, *layout.shape), (3, 32, 32), 10, ())
    assert Grid.of_view(replace(view, layout=layout)) == expected
    if layout.kind in ("maps", "vector"):
        assert Grid.of_view(view) == expected, "its shape says as much"


@pytest.mark.parametrize(
    "layout",
    [Layout("maps", (3, 4, 5)), Layout("tokens", (9, 2), 1, (2, 4)), Layout("tokens", (9, 2)), Layout("vector", (7,))],
    ids=["maps", "tokens", "tokens somewhere", "vector"],
)
def test_maps_go_back_to_what_is_sent(layout):
    z, grid = torch.randn(3, *layout.shape, generator=generator(0)), Grid.of(layout)
    again = grid.smashed(grid.maps(z))
    assert torch.equal(again[:, layout.prefix :], z[:, layout.prefix :])
    assert not again[:, : layout.prefix].any()


def test_tokens_keep_their_places_and_lose_their_prefix():
    z = torch.arange(5 * 2).reshape(1, 5, 2).float()  # a prefix, then a grid of 2 x 2
    maps = Grid.of(Layout("tokens", (5, 2), prefix=1, grid=(2, 2))).maps(z)
    assert maps[0, 0].tolist() == [[2, 4], [6, 8]]


@settings(deadline=None, max_examples=20)
@given(
    smashed=st.one_of(
        st.tuples(st.integers(1, 9), st.integers(1, 17), st.integers(1, 17)),
        st.tuples(st.integers(1, 30), st.integers(1, 9)),
        st.tuples(st.integers(1, 40)),
    ),
    image=st.tuples(st.sampled_from([1, 3]), st.integers(4, 20), st.integers(4, 20)),
    count=st.integers(1, 9),
)
def test_any_shape_becomes_images_of_any_shape(smashed, image, count):
    z, x = torch.randn(count, *smashed, generator=generator(0)), torch.rand(count, *image, generator=generator(1))
    with seeded(0):
        decoder = trained_decoder(Pairs(z, x), Training(2, 4, 1e-3, 8, 1, 0.03, 0.1), generator(2), "test")
    found = decoded(decoder, z)
    assert found.shape == x.shape
    assert found.min() >= 0
    assert found.max() <= 1


def ridge(z: Tensor, x: Tensor, fitted: int, penalty: float) -> Tensor:
    """For vectors and whole images: the textbook's formula in double precision."""
    a = z.double() - z.double().mean(0)
    a = a / a.square().mean(0).sqrt()
    b = (x.double() - x.double().mean(0)).flatten(1)
    weight = torch.linalg.inv(a[:fitted].T @ a[:fitted] + penalty * fitted * torch.eye(a.shape[1])) @ a[:fitted].T
    return (a @ weight @ b[:fitted]).reshape(x.shape) + x.mean(0)


@pytest.mark.parametrize("features", [6, 200])  # fewer and more than there are images
def test_the_linear_inverse_is_ridge_regression_with_the_penalty_that_images_kept_aside_prefer(features):
    x = torch.rand(60, 1, 4, 4, generator=generator(3))
    mixing = torch.randn(16, features, generator=generator(4))
    z = x.flatten(1) @ mixing + torch.randn(60, features, generator=generator(5))
    inverse = LinearInverse(Grid.of(by_rank((features,))), (1, 4, 4), z, x)(z)
    candidates = [ridge(z, x, 48, penalty) for penalty in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)]
    best = min(candidates, key=lambda c: float((c[48:] - x[48:]).square().mean()))
    assert torch.allclose(inverse.double(), best, atol=1e-3)
    assert not all(torch.allclose(inverse.double(), c, atol=1e-3) for c in candidates), (
        "the penalty makes no difference"
    )


def test_a_channel_that_was_silent_in_training_is_not_heard_later():
    x = torch.rand(30, 1, 8, 8, generator=generator(6))
    z = torch.randn(30, 3, 4, 4, generator=generator(7))
    z[:, 1] = 2.0
    inverse = LinearInverse(Grid.of(by_rank((3, 4, 4))), (1, 8, 8), z, x)
    loud = z.clone()
    loud[:, 1] = 1e6
    assert torch.equal(inverse(loud), inverse(z))


def test_a_decoder_starts_as_the_linear_inverse():
    x, z = torch.rand(20, 1, 8, 8, generator=generator(8)), torch.randn(20, 3, 4, 4, generator=generator(9))
    linear = LinearInverse(Grid.of(by_rank((3, 4, 4))), (1, 8, 8), z, x)
    assert torch.allclose(Decoder(linear, 8, 2)(z), linear(z), atol=1e-6)


def test_training_finds_what_is_not_linear_even_where_neighbours_tell_nothing():
    x = torch.rand(1100, 1, 8, 8, generator=generator(10))  # every pixel on its own
    with seeded(0), torch.no_grad():
        client = nn.Sequential(nn.Conv2d(1, 8, 2, stride=2), nn.Tanh())
        nn.init.normal_(client[0].weight, std=2.0)
        z = client(2 * x - 1)
    errors = []
    for steps in (0, 200):
        with seeded(1):
            decoder = trained_decoder(
                Pairs(z[:1000], x[:1000]), Training(steps, 32, 3e-3, 16, 2, 0.0), generator(11), "test"
            )
        errors.append(float((decoded(decoder, z[1000:]) - x[1000:]).square().mean()))
    assert errors[1] < 0.6 * errors[0]
