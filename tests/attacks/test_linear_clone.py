"""The error of a clone that is one convolution, told without passing anything through it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from splitbench.attacks._cloning import linear_clone as _linear_clone
from splitbench.attacks._cloning.linear_clone import LinearClone
from splitbench.attacks.unsplit import UnSplit
from splitbench.core.imagined import Imagined, several
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import cut
from splitbench.core.threat import ThreatModel
from tests.attacks._scene import scene


def unsettled(norm: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """Statistics, scales and shifts of its own, so that none of them can be forgotten."""
    for tensor in (norm.running_mean, norm.weight.data, norm.bias.data):
        assert tensor is not None
        tensor.normal_()
    assert norm.running_var is not None
    norm.running_var.uniform_(0.5, 2)
    return norm


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    norm=st.booleans(),
    side=st.tuples(st.integers(8, 11), st.integers(8, 11)),
    small=st.sampled_from([0, 10_000]),
)
def test_errors_and_slopes_are_those_of_passing_through(
    channels: int, kernel: Any, stride: Any, padding: Any, dilation: int, bias: bool, norm: bool, side: Any, small: int
) -> None:
    with seeded(0):
        layers: list[nn.Module] = [nn.Conv2d(channels, 5, kernel, stride, padding, dilation, bias=bias)]
        client = nn.Sequential(*layers, *([unsettled(nn.BatchNorm2d(5))] if norm else [])).double().eval()
    x = torch.rand(3, channels, *side, generator=generator(1)).double().requires_grad_()
    targets = torch.randn(client(x).shape, generator=generator(2)).double()
    passing = (client(x) - targets).square().flatten(1).mean(1)
    clone = LinearClone.of(client, x.detach())
    assert clone is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_linear_clone, "_SMALL", small)
        told = clone.of_images(targets, tuple(x.shape[1:]))(x)
    torch.testing.assert_close(told, passing)
    counts = torch.tensor([1.0, 2.0, 3.0]).double()  # another slope for each image
    torch.testing.assert_close(*(torch.autograd.grad(each @ counts, x, retain_graph=True) for each in (told, passing)))

    whole = clone.of_weights(x.detach(), targets)()
    torch.testing.assert_close(whole, passing.mean())
    weights = list(client.parameters())
    torch.testing.assert_close(*(torch.autograd.grad(each, weights) for each in (whole, passing.mean())))


class Folded(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).abs()


@pytest.mark.parametrize(
    "client",
    [
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)),
        nn.Sequential(nn.Conv2d(1, 4, 3, padding="same")),
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect")),
        nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 4, 3)),
        Folded(nn.Conv2d(1, 4, 3)),
        nn.Flatten(),
        nn.Sequential(),
    ],
    ids=["relu", "stem with relu", "moving norm", "same", "reflect", "norm first", "folded", "flatten", "nothing"],
)
def test_any_other_client_is_not_taken_for_one(client: nn.Module) -> None:
    assert LinearClone.of(client.eval(), torch.rand(2, 1, 8, 8, generator=generator(0))) is None


def stem() -> nn.Module:
    return cut(nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), ["1"])[0]


def test_unsplit_finds_with_it_what_it_finds_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few steps: in many, rounding is enough to lead elsewhere."""
    attack = UnSplit(outer=2, inner=4, starts=1)
    with scene(stem, ThreatModel(architecture=True), targets=3) as made:
        assert attack._begin(made.view, generator(0))[0].clone.linear is not None
        quick = attack.run(made.view, generator(0)).inputs
        monkeypatch.setattr(LinearClone, "of", lambda *_: None)
        slow = attack.run(made.view, generator(0)).inputs
    assert quick is not None
    torch.testing.assert_close(quick, slow, rtol=1e-3, atol=1e-4)


class Louder(Imagined):
    def simulate(self, z: Tensor, generator: Any) -> Tensor:
        return 3 * z


class Known(Imagined):
    """Nothing, until it is seen what was sent."""

    def given(self, sent: Tensor) -> Imagined:
        return Louder()


def test_a_defense_that_is_imagined_is_passed_through(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = UnSplit(outer=2, inner=4, starts=1)
    with scene(stem, ThreatModel(architecture=True), targets=3) as made:

        def found(imagined: Imagined, **settings: Any) -> Tensor:
            guess = replace(attack, **settings).run(replace(made.view, imagined=imagined), generator(0)).inputs
            assert guess is not None
            return guess

        louder = found(Louder())
        assert not torch.allclose(louder, found(Imagined()))
        assert torch.equal(louder, found(Known())), "what was sent tells what was done to it"
        assert torch.equal(found(Imagined()), found(Known(), given=False))
        monkeypatch.setattr(LinearClone, "of", lambda *_: None)
        assert torch.equal(louder, found(Louder()))


def test_what_disguises_is_told_by_what_it_sends() -> None:
    assert not Imagined().disguises
    assert Louder().disguises
    assert several((Imagined(), Louder())).disguises
    assert not several((Imagined(),)).disguises
