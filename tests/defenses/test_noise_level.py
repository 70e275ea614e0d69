"""The strength of noise is read off smashed data."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.defense import Composed
from splitbench.core.imagined import Imagined, Rebuilt, Several
from splitbench.defenses._noise.noise_level import noise_level
from splitbench.defenses.gaussian import Gaussian


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("shape", [(16, 8, 14, 14), (16, 65, 48), (16, 300)])
def test_pure_noise_is_measured(sigma: float, shape: tuple[int, ...]) -> None:
    noise = sigma * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert noise_level(noise) == pytest.approx(sigma, rel=0.3)


@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_noise_on_smooth_maps_is_measured(sigma: float) -> None:
    line = torch.linspace(-3, 3, 16)
    smooth = (line[:, None] * line).sin().expand(16, 8, 16, 16)
    noise = sigma * torch.randn(smooth.shape, generator=torch.Generator().manual_seed(0))
    assert noise_level(smooth + noise) == pytest.approx(sigma, rel=0.3)


def test_nothing_seen_means_no_noise() -> None:
    assert noise_level(torch.zeros(0, 8, 14, 14)) == 0
    assert noise_level(torch.ones(4, 8, 14, 14)) == 0


def test_the_ladder_of_knowledge() -> None:
    defense, seen = Gaussian(0.7), 0.7 * torch.randn(32, 8, 14, 14, generator=torch.Generator().manual_seed(0))
    assert type(defense.imagined("none", seen)) is Imagined
    family = defense.imagined("family", seen)
    assert isinstance(family, Rebuilt)
    assert isinstance(family.defense, Gaussian)
    assert family.defense.sigma != defense.sigma
    assert family.defense.sigma == pytest.approx(0.7, rel=0.3)
    exact = defense.imagined("exact", seen)
    assert isinstance(exact, Rebuilt)
    assert exact.defense == defense
    both = Composed((defense, Gaussian(0.1))).imagined("exact", seen)
    assert isinstance(both, Several)
    assert [part.defense for part in both.parts if isinstance(part, Rebuilt)] == [defense, Gaussian(0.1)]
