"""Parameter counts of SEAL's table 4, of torchvision's documentation, and by hand."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.registry import load

# Model, classes, cut, client, server: SEAL, table 4. RoBERTa is counted there without a classification head.
SEAL = [
    ("resnet18", 10, "stem", 9_536, 11_172_106),
    ("wide_resnet50_2", 100, "stem", 9_536, 67_029_604),
    ("roberta_base", 0, "embeddings", 38_603_520, 86_042_112),
]


def block(width: int) -> int:
    """A transformer block: attention and a fourfold MLP with biases, two layer norms."""
    return 12 * width**2 + 13 * width


# By hand, from the papers' descriptions.
VIT = (16 * 16 * 3 + 1) * 192 + (1 + 14**2 + 1) * 192 + 12 * block(192) + 2 * 192 + 193 * 1000
PIT = (16 * 16 * 3 + 1) * 64 + (27**2 + 1) * 64 + 2 * block(64) + 6 * block(128) + 4 * block(256)
PIT += (9 + 1) * 128 + (64 + 1) * 128 + (9 + 1) * 256 + (128 + 1) * 256  # the poolings: grid, class token
PIT += 2 * 256 + 257 * 1000

WHOLE = [
    ("resnet50", {}, (3, 224, 224), 1000, 25_557_032),  # torchvision's documentation
    ("vgg16", {}, (3, 224, 224), 1000, 138_357_544),  # torchvision's documentation
    ("vit_tiny", {"patch": 16}, (3, 224, 224), 1000, VIT),
    ("pit_tiny", {"patch": 16, "stride": 8}, (3, 224, 224), 1000, PIT),
    ("lenet5", {}, (1, 28, 28), 10, 26 * 6 + 151 * 16 + 401 * 120 + 121 * 84 + 85 * 10),
]


@pytest.mark.parametrize(("name", "classes", "cut", "client", "server"), SEAL, ids=[row[0] for row in SEAL])
def test_a_split_network_has_the_papers_parameters_on_each_side(name, classes, cut, client, server) -> None:
    model = load("models", name)()
    with torch.device("meta"):
        network = model.build((128,) if model.modality == "text" else (3, 32, 32), classes)
    split = model.split(network, (cut,))
    assert (split.parameters("client"), split.parameters("server")) == (client, server)


@pytest.mark.parametrize(("name", "settings", "shape", "classes", "expected"), WHOLE, ids=[row[0] for row in WHOLE])
def test_a_whole_network_has_the_expected_number_of_parameters(name, settings, shape, classes, expected) -> None:
    with torch.device("meta"):
        network = load("models", name)(**settings).build(shape, classes)
    assert sum(p.numel() for p in network.parameters()) == expected


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "wide_resnet50_2"])
def test_a_narrow_residual_network_keeps_the_papers_client(name: str) -> None:
    model = load("models", name)(width=0.25)
    split = model.split(model.build((3, 32, 32), 10), ("stem",))
    assert split.parameters("client") == 9_536
    assert split.parameters("server") < 6_000_000


def test_a_narrow_vgg16_keeps_the_papers_client() -> None:
    model = load("models", "vgg16")(width=0.1, hidden=32, grid=1)
    split = model.split(model.build((3, 32, 32), 10), ("pool1",))
    assert split.parameters("client") == (3 * 9 + 1) * 64 + (64 * 9 + 1) * 64


def test_heads_are_added_only_for_classes() -> None:
    model = load("models", "roberta_small")(vocabulary=50, length=8, width=16)
    counts = []
    for classes in (0, 2):
        with torch.device("meta"):
            counts.append(sum(p.numel() for p in model.build((8,), classes).parameters()))
    assert counts[1] - counts[0] == 2 * 16 + 2
