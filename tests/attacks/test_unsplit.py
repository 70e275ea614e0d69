"""UnSplit: all images at once, and the same as one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks._cloning.total_variation import total_variation
from splitbench.attacks.unsplit import UnSplit
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import cut
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View
from tests.attacks._scene import scene


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU())


def one_at_a_time(view: View, attack: UnSplit, clones: list[nn.Module]) -> Tensor:
    """The paper's loop as it is written, for one image after the other, each with a clone of its own."""
    found = []
    spread = view.merged.var() if attack.relative else 1.0
    for z, clone in zip(view.merged, clones, strict=True):
        x = torch.full((1, *view.shape), 0.5, requires_grad=True)
        on_x = torch.optim.Adam([x], attack.lr, amsgrad=True)
        on_clone = torch.optim.Adam(clone.parameters(), attack.clone_lr, amsgrad=True)
        for _ in range(attack.outer):
            for _ in range(attack.inner):
                on_x.zero_grad()
                down, across = x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]
                variation = (down.square().sum() + across.square().sum()) / x.numel()
                if attack.relative:
                    variation = variation / (1e-6 + x.var())
                loss = (clone(x) - z).square().mean() / spread + attack.tv * variation + attack.l2 * x.square().mean()
                loss.backward()
                on_x.step()
                if attack.bounded:
                    x.data.clamp_(0, 1)
            for _ in range(attack.inner):
                on_clone.zero_grad()
                ((clone(x.detach()) - z).square().mean() / spread).backward()
                on_clone.step()
        found.append(x.detach()[0])
    return torch.stack(found)


PAPER: dict[str, Any] = {"bounded": False, "relative": False, "lr": 1e-3, "clone_lr": 1e-3, "tv": 0.1, "l2": 1.0}


@pytest.mark.parametrize("settings", [PAPER, {}], ids=["as in the paper", "as it is by default"])
def test_a_clone_for_each_image_equals_the_loop_over_images(settings: dict[str, Any]) -> None:
    attack = UnSplit(outer=3, inner=5, clones="each", starts=1, **settings)
    with scene(small, ThreatModel(architecture=True), targets=3) as made:
        seed = int(torch.randint(2**62, (), generator=generator(0)))
        with seeded(seed, "unsplit", 0):
            clones = [small().eval() for _ in range(3)]
        slow = one_at_a_time(made.view, attack, clones)
        fast = attack.run(made.view, generator(0)).inputs
    assert fast is not None
    torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("clones", ["shared", "each"])
def test_of_several_starts_the_best_explained_goes_on(clones: Literal["shared", "each"]) -> None:
    """With a race as long as the attack, what goes on is what is returned."""
    alone = UnSplit(outer=4, inner=5, clones=clones, starts=1)
    with scene(small, ThreatModel(architecture=True), targets=3) as made:
        begun = replace(alone, starts=3)._begin(made.view, generator(0))
        for attempt in begun:
            for _ in range(4):
                alone._round(attempt, made.view, generator(0))
        found = replace(alone, starts=3, race=1.0).run(made.view, generator(0)).inputs
    objectives = torch.stack([attempt.objective for attempt in begun])
    best = objectives.mean(1).argmin().expand(3) if clones == "shared" else objectives.argmin(0)
    assert found is not None
    for image, start in enumerate(best.tolist()):
        assert torch.equal(found[image], begun[start].guess[image])
    assert replace(alone, starts=3, race=0.5).iterations == 2 * 5 * (4 + 2 * 2)


@pytest.mark.parametrize("clones", ["shared", "each"])
def test_every_second_start_is_the_opposite_of_the_one_before(clones: Literal["shared", "each"]) -> None:
    with scene(small, ThreatModel(architecture=True), targets=3) as made:
        one, other, third = UnSplit(starts=3, clones=clones)._begin(made.view, generator(0))
    assert torch.equal(other.clone.weights[0], -one.clone.weights[0])
    assert all(torch.equal(a, b) for a, b in zip(one.clone.weights[1:], other.clone.weights[1:], strict=True))
    assert not torch.equal(third.clone.weights[0].abs(), one.clone.weights[0].abs())


def test_a_guess_stays_among_pixels_and_shrinking_it_does_not_lessen_its_variation() -> None:
    with scene(small, ThreatModel(architecture=True), targets=3) as made:
        found = UnSplit(outer=2, inner=5, lr=0.5).run(made.view, generator(0)).inputs
    assert found is not None
    assert found.min() == 0.0
    assert found.max() == 1.0
    x = torch.rand(4, 1, 8, 8, generator=generator(0))
    for attack in (UnSplit(), UnSplit(clones="each")):
        torch.testing.assert_close(attack._variation(x / 10), attack._variation(x), rtol=1e-2, atol=0)
    torch.testing.assert_close(UnSplit(relative=False)._variation(x / 10), total_variation(x) / 100)


def test_a_constant_image_has_no_variation_and_a_step_has_its_squares() -> None:
    x = torch.zeros(2, 1, 4, 4)
    x[1, 0, :, 2:] = 3.0
    assert total_variation(x).tolist() == [0.0, 4 * 9 / 16]


@pytest.mark.parametrize("clones", ["shared", "each"])
def test_it_clones_a_cut_network_with_batch_norm(clones: Literal["shared", "each"]) -> None:
    """As the runner's templates are: every one a class of its own, with statistics that must not move."""

    def client() -> nn.Module:
        return cut(nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), ["1"])[0]

    with scene(client, ThreatModel(architecture=True), targets=3) as made:
        found = UnSplit(outer=2, inner=3, clones=clones).run(made.view, generator(0)).inputs
    assert found is not None
    assert torch.isfinite(found).all()
    assert not torch.equal(found[0], found[1]), "the guesses follow the targets"
