"""The data set that ships with splitbench."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from splitbench.core.errors import SplitbenchError
from splitbench.data._folders import EMBEDDED, search
from splitbench.data._formats import idx as _idx
from splitbench.data.fashion_mnist import FashionMnist
from splitbench.data.fashion_mnist_mini import FashionMnistMini


def test_it_is_small_and_balanced_and_needs_nothing_else():
    data = FashionMnistMini().load(())
    assert (len(data.train), len(data.test), data.shape, data.classes) == (3000, 600, (1, 28, 28), 10)
    assert torch.bincount(data.train.y).tolist() == [300] * 10
    assert torch.bincount(data.test.y).tolist() == [60] * 10
    assert data.names == FashionMnist.names
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) < 2_000_000


def test_it_is_the_first_of_every_class_of_the_original():
    places = [Path(p) for p in os.environ.get("SPLITBENCH_DATA", "").split(os.pathsep) if p]
    first = search(_idx.places("fashion_mnist", "FashionMNIST/raw"), places)
    first = first or search(_idx.places("fashion-mnist"), [Path("/usr/share/datasets")])
    if first is None:
        pytest.skip("the original Fashion-MNIST is not here")
    original, mini = _idx.dataset("original", first, FashionMnist.names), FashionMnistMini().load(())
    for whole, part, each in ((original.train, mini.train, 300), (original.test, mini.test, 60)):
        rank = torch.nn.functional.one_hot(whole.y).cumsum(0).gather(1, whole.y[:, None])[:, 0]
        assert torch.equal(whole.x[rank <= each], part.x)
        assert torch.equal(whole.y[rank <= each], part.y)


def test_another_file_of_its_name_is_refused(tmp_path):
    raw = bytearray((EMBEDDED / "fashion_mnist_mini.npz").read_bytes())
    raw[1000] ^= 1
    (tmp_path / "fashion_mnist_mini.npz").write_bytes(raw)
    with pytest.raises(SplitbenchError, match="not the file that ships with splitbench"):
        FashionMnistMini().load((tmp_path,))


def test_its_licence_goes_with_it():
    text = (EMBEDDED / "LICENSE").read_text()
    assert "Copyright (c) 2017 Zalando SE, https://tech.zalando.com" in text
    assert "Permission is hereby granted, free of charge" in text
