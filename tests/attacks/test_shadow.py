"""Inversion without queries: a shadow of the client stands for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks._alignment.matching import Matching, matched
from splitbench.attacks.inversion import Inversion
from splitbench.attacks.mean_image import MeanImage
from splitbench.core.attack import Attack
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.imagined import Imagined
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View
from splitbench.metrics.ssim import SSIM
from tests.attacks._scene import Silence, scene

NO_QUERIES = ThreatModel(architecture=True, auxiliary=256)
QUICK = Inversion(steps=40, shadow_steps=600, shadow_batch=32, shadow_lr=1e-2)


def stem() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16))


def guess(attack: Attack, view: View) -> Tensor:
    found = attack.run(view, generator(3)).inputs
    assert found is not None
    return found


def score(attack: Attack, view: View, truth: Tensor) -> float:
    return float(SSIM()(guess(attack, view), Truth.of(truth)).mean())


def test_it_sees_far_more_than_the_mean_image_and_nothing_where_nothing_is_sent() -> None:
    with scene(stem, NO_QUERIES, targets=32) as made:
        assert score(QUICK, made.view, made.truth) > score(MeanImage(), made.view, made.truth) + 0.2
        # The same adversary, with the same layers to shadow, before a client that is silent.
        silent = replace(made.view, targets=Silence()(made.view.targets))
        assert score(QUICK, silent, made.truth) <= score(MeanImage(), made.view, made.truth) + 0.05


def test_the_same_seed_gives_the_same_bytes_and_torchs_generator_is_untouched() -> None:
    brief = Inversion(steps=10, shadow_steps=10, shadow_labels=0.5)
    before = torch.random.get_rng_state()
    with scene(stem, NO_QUERIES) as made:
        assert torch.equal(guess(brief, made.view), guess(brief, made.view))
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_adversarys_copy_of_the_server_is_left_as_it_was() -> None:
    with scene(stem, NO_QUERIES) as made:
        server = made.view.stages[0].train().requires_grad_(True)
        before = {name: value.clone() for name, value in server.state_dict().items()}
        with seeded(0):
            matched(stem(), made.view, Matching(3, 16, 1e-3, labels=1.0), generator(0))
        assert server.training
        assert all(parameter.grad is None for parameter in server.parameters())
        assert all(torch.equal(before[name], value) for name, value in server.state_dict().items())


@pytest.mark.parametrize("attributes", [False, True])
def test_labels_help_also_where_the_server_does_not_hold_the_last_layers(attributes: bool) -> None:
    with scene(stem, NO_QUERIES) as made:
        assert made.view.auxiliary is not None
        public = made.view.auxiliary
        if attributes:
            public = replace(public, y=nn.functional.one_hot(public.y, made.view.classes))
        middle = [nn.Conv2d(16, 5, 1)]
        with seeded(0):
            view = replace(made.view, stages=middle, auxiliary=public)
            client = matched(stem(), view, Matching(3, 16, 1e-3, labels=1.0), generator(0))
        assert client(public.x[:2]).shape == made.view.merged[:2].shape
        assert not client.training


@dataclass(frozen=True)
class Twisted(Imagined):
    """Turns every other channel over and makes the rest faint."""

    def simulate(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        return z * torch.tensor([-3.0, 0.1]).repeat(8).view(1, -1, 1, 1)


def test_an_adversary_that_knows_the_defense_does_as_well_as_without_it_and_one_that_does_not_does_worse() -> None:
    perfect = Inversion(steps=0, shadow_steps=0, shadow_noise=0.3)
    with scene(stem, NO_QUERIES) as made:
        # A shadow that is the client itself, so that the defense alone makes the difference.
        with seeded(0, "client"):
            client = stem()
        open_view = replace(made.view, template=lambda: client)
        told = replace(open_view, imagined=Twisted())
        told = replace(told, targets=told.imagine(open_view.merged, None)[None])
        expected = score(perfect, open_view, made.truth)
        assert score(perfect, told, made.truth) == pytest.approx(expected, abs=0.02)
        assert score(perfect, replace(told, imagined=Imagined()), made.truth) < expected - 0.2


def test_smashed_data_that_are_not_finite_fail_the_cell_and_a_missing_need_refuses() -> None:
    with scene(stem, NO_QUERIES) as made:
        broken = replace(made.view, targets=made.view.targets.clone().fill_(torch.nan))
        with pytest.raises(CellError, match="not finite"):
            Inversion(steps=1, shadow_steps=1).run(broken, generator(0))
        with pytest.raises(SplitbenchError, match="needs queries=1 or architecture=true"):
            Inversion().run(replace(made.view, threat=ThreatModel(auxiliary=9)), generator(0))


@pytest.mark.parametrize("granted", [ThreatModel(auxiliary=1, queries=1), ThreatModel(auxiliary=1, architecture=True)])
def test_one_auxiliary_image_is_enough_to_run(granted: ThreatModel) -> None:
    with scene(stem, granted) as made:
        found = guess(Inversion(steps=3, shadow_steps=3), made.view)
    assert found.shape == made.truth.shape
    assert found.isfinite().all()
