"""Inversion of the papers' client, the first convolution of a ResNet, on the papers' data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks.inversion import Inversion
from splitbench.attacks.mean_image import MeanImage
from splitbench.attacks.unsplit import UnSplit
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from splitbench.metrics.ssim import SSIM
from splitbench.runner.score import READOUTS
from tests.benchmarks.test_attacks import one_at_a_time


def read(folder: Path, name: str) -> tuple[Tensor, Tensor]:
    """A thousand public images and a hundred to recover."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        both = [torch.from_numpy(arrays[key][:count]) for key, count in (("x_train", 1000), ("x_test", 100))]
    images = [(x.unsqueeze(-1) if x.ndim == 3 else x).permute(0, 3, 1, 2).float() / 255 for x in both]
    return images[0], images[1]


def stem(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64))


def real(public: Tensor) -> nn.Sequential:
    """A client as it is before its first step, but for batch norm, which knows its data."""
    with seeded(0, "client"):
        client = stem(public.shape[1])
        client[1].momentum = None  # one pass gives the exact statistics
        client(public)
        return client.eval().requires_grad_(False)


def scores(folder: Path, name: str, threat: ThreatModel) -> tuple[float, float]:
    """Of inversion, and of the mean image."""
    public, truth = read(folder, name)
    client = real(public)
    with Query.open(lambda x: client(x)[None], threat.queries) as query:
        view = View(
            threat=threat,
            targets=client(truth)[None],
            shape=tuple(truth.shape[1:]),
            classes=10,
            stages=(),
            template=lambda: stem(public.shape[1]),
            auxiliary=Auxiliary(public, torch.zeros(len(public), dtype=torch.long)),
            query=query if threat.queries else None,
        )
        found = [attack.run(view, generator(1)).inputs for attack in (Inversion(), MeanImage())]
    return tuple(float(SSIM()(x, Truth.of(truth)).mean()) for x in found if x is not None)  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_with_queries_the_first_convolution_hides_nothing(shared_data: Path, name: str) -> None:
    inverted, floor = scores(shared_data, name, ThreatModel(auxiliary=1000, queries=1000))
    assert inverted > 0.99  # measured: at least .9999
    assert floor < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bar"), [("mnist", 0.85), ("fashion_mnist", 0.8), ("cifar10", 0.75)])
def test_without_queries_a_shadow_shows_most_of_it(shared_data: Path, name: str, bar: float) -> None:
    inverted, floor = scores(shared_data, name, ThreatModel(auxiliary=1000, architecture=True))
    assert inverted > bar > floor + 0.5  # measured with clients trained for two epochs: .95, .89, .85


@pytest.mark.slow
def test_unsplit_reaches_more_than_the_original_in_as_many_steps(shared_data: Path) -> None:
    public, truth = read(shared_data, "mnist")
    truth, attack = truth[:2], UnSplit()
    client = real(public)
    view = View(
        threat=ThreatModel(architecture=True),
        targets=client(truth)[None],
        shape=tuple(truth.shape[1:]),
        classes=10,
        stages=(),
        template=lambda: stem(1),
    )
    rounds = attack.iterations // (2 * 100)  # of a hundred steps of either kind, as in the original
    with seeded(1):
        loop = one_at_a_time(client, truth, rounds, 100)
    found = attack.run(view, generator(1)).inputs
    assert found is not None
    ours, original = (float(SSIM()(READOUTS["minmax"](x), Truth.of(truth)).mean()) for x in (found, loop))
    assert ours > 0.5  # measured, for eight images and a trained client: .95
    assert ours > original + 0.2  # .16
