"""Our VGG-16 is timm's, computed on any grid."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from splitbench.core.randomness import seeded
from splitbench.core.registry import load
from splitbench.models._timm.package import timm


@pytest.fixture(scope="module")
def timms() -> nn.Module:
    network: nn.Module = timm.create_model("vgg16", num_classes=0)
    # Its hidden width is fixed at 4096; a narrow classifier of the same kind makes the comparison quick.
    network.pre_logits = timm.models.vgg.ConvMlp(512, 16, 7, drop_rate=0.0)
    return network.eval()


@pytest.mark.parametrize("size", [32, 224])
def test_it_is_timms_network_given_the_same_weights(timms: nn.Module, size: int) -> None:
    ours = load("models", "vgg16")(hidden=16).build((3, size, size), 5).eval()
    head = ours.classifier.head
    with torch.no_grad():
        for parameter, value in zip(ours.parameters(), [*timms.parameters(), *head.parameters()], strict=True):
            parameter.copy_(value.view_as(parameter))
        x = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
        features = timms(x)
        assert features.std() > 1e-4
        torch.testing.assert_close(ours(x), head(features), rtol=1e-4, atol=1e-6)


def test_a_fresh_network_tells_images_apart_which_with_torchs_initialisation_it_would_not() -> None:
    with seeded(0, "vgg16"):
        network = load("models", "vgg16")(width=0.25, hidden=16, grid=1).build((3, 32, 32), 10).eval()
        x = torch.rand(8, 3, 4, 4).repeat_interleave(8, -1).repeat_interleave(8, -2)

        def differences() -> float:
            """Between images, in units of the input's; thirteen layers that shrink by half would leave 1e-4."""
            with torch.no_grad():
                return float(network.features(x).std(0).mean() / x.std(0).mean())

        ours = differences()
        for layer in network.features:
            if isinstance(layer, nn.Conv2d):
                layer.reset_parameters()
        assert ours > 2e-3
        assert differences() < 1e-5


def test_images_of_28_pixels_reach_the_classifier_as_one_pixel_not_none() -> None:
    ours = load("models", "vgg16")(width=0.05, hidden=8, grid=1).build((1, 28, 28), 10)
    assert ours.features(torch.rand(2, 1, 28, 28)).shape[-2:] == (1, 1)
