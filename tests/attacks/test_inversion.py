"""The decoder: exact where the client is linear, honest about what it lacks, chosen on pairs kept aside."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.linear_inverse import LinearInverse
from splitbench.attacks._decoding.training import dissimilarity
from splitbench.attacks.inversion import Inversion
from splitbench.core.layout import Layout, by_rank
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.metrics.mse import MSE
from splitbench.metrics.ssim import SSIM
from tests.attacks._scene import images, scene


def linear() -> nn.Module:
    return nn.Conv2d(1, 16, 7, stride=2, padding=3)


class Tokens(nn.Module):
    """A patch embedding with a class token before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, 24, 4, stride=4)
        self.token = nn.Parameter(torch.ones(1, 1, 24))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        return torch.cat((self.token.expand(len(x), -1, -1), patches), 1)


def flat() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 300))


@pytest.mark.parametrize("make", [linear, Tokens, flat])
def test_a_linear_client_hides_nothing_whatever_the_shape_of_its_features(make: type[nn.Module]) -> None:
    with scene(make) as made:
        layout = Layout("tokens", (17, 24), prefix=1, grid=(4, 4)) if make is Tokens else made.view.layout
        found = Inversion(steps=60).run(replace(made.view, layout=layout), generator(0)).inputs
        assert found is not None
        # A vector has no places to share weights over, so 256 pairs do not determine it.
        assert float(SSIM()(found, made.true()).mean()) > (0.6 if make is flat else 0.97)


def test_the_linear_inverse_solves_the_ridge_equations() -> None:
    x, _ = images(64, 3)
    z = torch.randn(64, 5, 8, 8, generator=generator(4))
    inverse = LinearInverse(Grid.of(by_rank((5, 8, 8))), (1, 16, 16), z, x)
    # Noise says nothing of the images, so the best that is linear is their mean.
    error = MSE()(inverse(torch.randn(64, 5, 8, 8, generator=generator(5))), Truth.of(x)).mean()
    assert float(error) < 1.1 * float(MSE()(x.mean(0, keepdim=True).expand_as(x), Truth.of(x)).mean())


def test_without_queries_it_trains_a_shadow_of_the_client() -> None:
    threat = ThreatModel(labels=True, architecture=True, auxiliary=256)
    with scene(linear, threat) as made:
        assert made.view.query is None
        found = Inversion(steps=20, shadow_steps=20).run(made.view, generator(0)).inputs
    assert found is not None
    assert found.shape == made.truth.shape


@pytest.mark.parametrize(
    ("threat", "words"),
    [
        (ThreatModel(auxiliary=9), "needs queries=1 or architecture=true"),
        (ThreatModel(queries=9), "needs auxiliary=1"),
        (ThreatModel(auxiliary=9, queries=9), None),
        (ThreatModel(auxiliary=9, architecture=True), None),
    ],
)
def test_it_says_what_it_lacks(threat: ThreatModel, words: str | None) -> None:
    said = Inversion().lacks(threat)
    assert said is None if words is None else words in (said or "")


def test_it_asks_no_more_than_it_was_granted() -> None:
    with scene(linear, ThreatModel(auxiliary=256, queries=100)) as made:
        Inversion(steps=2).run(made.view, generator(0))
        assert made.view.query is not None
        assert made.view.query.left == 0


def test_dissimilarity_is_zero_for_equals_and_grows_with_noise() -> None:
    x, _ = images(8, 6)
    noise = torch.randn(x.shape, generator=generator(7))
    values = [float(dissimilarity(x + level * noise, x)) for level in (0.0, 0.1, 0.5)]
    assert values[0] == pytest.approx(0, abs=1e-5)
    assert values[0] < values[1] < values[2]
