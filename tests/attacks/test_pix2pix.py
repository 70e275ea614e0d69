"""Pix2pix: its networks at every size, its losses, and what it learns from tokens."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._pix2pix.critic import PatchGAN
from splitbench.attacks._pix2pix.generator import UNet
from splitbench.attacks._pix2pix.laying import Laid
from splitbench.attacks._pix2pix.training import generated
from splitbench.attacks.pix2pix import Pix2Pix
from splitbench.core.layout import Layout, by_rank
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.metrics.ssim import SSIM
from tests.attacks._tokens import edge, pictures, tokens_view

TRUTH, PUBLIC = pictures(32, 1), pictures(256, 2)


def networks(side: int, width: int = 4) -> tuple[UNet, PatchGAN]:
    torch.manual_seed(0)
    grid = Grid.of(Layout("tokens", (17, 6), 1, (4, 4)))
    laid = [Laid(grid, (3, side, side), 2) for _ in range(2)]
    return UNet(laid[0], 3, 2, width, 0.5), PatchGAN(laid[1], 3, 2, width)


@pytest.mark.parametrize("side", [16, 28, 32, 64])
@pytest.mark.parametrize("batch", [1, 3])
def test_networks_fit_images_of_any_side(side: int, batch: int) -> None:
    maker, critic = networks(side)
    z = torch.randn(batch, 17, 6)
    image = maker.train()(z)
    assert image.shape == (batch, 3, side, side)
    assert float(image.detach().abs().max()) <= 1
    judged = critic(z, image)
    assert judged.shape[:2] == (batch, 1)
    assert judged.shape[-1] == max(32, side) // 8 - 2


def test_the_critic_judges_patches_of_70_pixels_seen_beside_the_condition() -> None:
    _, critic = networks(128)
    critic.eval()
    image = torch.zeros(1, 3, 128, 128, requires_grad=True)
    logits = critic(torch.randn(1, 17, 6), image)
    (slope,) = torch.autograd.grad(logits[0, 0, 7, 7], image)
    seen = slope.abs().sum((0, 1)) > 0
    assert int(seen.any(0).sum()) == int(seen.any(1).sum()) == 70
    assert not torch.equal(critic(torch.randn(1, 17, 6), image), logits)


def test_the_papers_u_net_has_54_million_weights_at_256_pixels() -> None:
    grid = Grid.of(by_rank((3, 256, 256)))
    with torch.device("meta"):
        maker = UNet(Laid(grid, (3, 256, 256), 3), 3, 3, 64, 0.5)
    count = sum(p.numel() for layers in (maker.down, maker.up) for p in layers.parameters())
    # 54.4 million is what the authors' code has, where layers before a normalisation have no bias.
    biases = 0
    for part in (*maker.down, *maker.up):
        layers = list(part.children())
        for layer, following in itertools.pairwise(layers):
            if isinstance(following, nn.BatchNorm2d):
                biases += layer.get_parameter("bias").numel()
    assert count - biases == pytest.approx(54.41e6, rel=1e-3)


def test_dropout_goes_on_when_it_guesses_and_means_are_those_of_training() -> None:
    maker, _ = networks(32)
    z = torch.randn(4, 17, 6)
    assert not torch.equal(generated(maker, z), generated(maker, z))
    assert not any(layer.training for layer in maker.modules() if isinstance(layer, nn.BatchNorm2d))


def test_values_of_a_place_are_laid_over_its_tile_alone() -> None:
    laid = Laid(Grid.of(Layout("tokens", (17, 6), 1, (4, 4))), (3, 16, 16), 2)
    z = torch.zeros(2, 17, 6)
    z[1, 1 + 6] = 1.0  # second row, third column
    changed = (laid(z)[0] != laid(z)[1]).any(0)
    assert bool(changed[4:8, 8:12].any())
    changed[4:8, 8:12] = False
    assert not bool(changed.any())


def test_it_learns_from_tokens_and_beats_the_mean_image() -> None:
    attack = Pix2Pix(steps=120, width=8, lr=5e-3, dropout=0.0)
    found = attack.run(tokens_view(edge(), TRUTH, PUBLIC), generator(0)).inputs
    assert found is not None
    metric, truth = SSIM(), Truth.of(TRUTH)
    assert float(metric(found, truth).mean()) > float(metric(PUBLIC.mean(0).expand_as(TRUTH), truth).mean()) + 0.15


def test_the_papers_settings_build_and_take_an_epoch() -> None:
    paper = Pix2Pix(epochs=1, batch=1, lr=2e-4, width=64)
    found = paper.run(tokens_view(edge(), TRUTH[:2], PUBLIC[:2]), generator(0)).inputs
    assert found is not None
    assert found.shape == TRUTH[:2].shape
    assert bool(found.isfinite().all())
