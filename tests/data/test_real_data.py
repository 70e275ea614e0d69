"""Every real data set, where the files are to be had."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.randomness import generator
from splitbench.core.registry import load
from splitbench.data._allocation.allocate import allocate

COUNTS = {
    "mnist": (20_000, 4_000, (1, 28, 28), 10),
    "fashion_mnist": (20_000, 4_000, (1, 28, 28), 10),
    "cifar10": (12_000, 3_000, (3, 32, 32), 10),
    "tiny_imagenet": (1_200, 300, (3, 64, 64), 20),
    "celeba": (2_500, 300, (3, 64, 64), 40),
    "lfw": (1_054, 296, (3, 64, 64), 62),
    "imdb": (2_000, 2_000, (128,), 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_it_loads_whole_and_its_samples_can_be_kept_apart(shared_data, name):
    if name == "imdb":
        pytest.importorskip("tokenizers")
    data = load("data", name)().load((shared_data,))
    assert (len(data.train), len(data.test), data.shape, data.classes) == COUNTS[name]
    assert len(data.names) == data.classes
    assert data.task == ("attributes" if name == "celeba" else "classes")
    if name == "celeba":
        assert set(data.train.y.unique().tolist()) == {0, 1}
        assert set(data.test.extras["identity"].tolist()) == set(range(50))
    else:
        assert set(data.train.y.tolist()) == set(range(data.classes))
    if name == "imdb":
        assert data.train.x.max() < 8192
    else:
        assert data.train.x.dtype == torch.uint8
        # Photographs are neither black nor noise: neighbours resemble each other.
        x = data.test.x.float()
        assert (x[..., 1:] - x[..., :-1]).abs().mean() < 0.5 * x.std()
    allocate(data, 500, 200, 100, generator(0)).check()
