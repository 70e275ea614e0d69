"""The files as their publishers hand them out, in miniature."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from _written import RNG, idx, pictures

from splitbench.core.errors import SplitbenchError
from splitbench.data._formats import images as _images
from splitbench.data.cifar10 import Cifar10
from splitbench.data.fashion_mnist import FashionMnist
from splitbench.data.mnist import Mnist


@pytest.fixture
def digits():
    return [
        pictures(6, 28, 28, 1)[..., 0],
        np.arange(6, dtype=np.uint8),
        pictures(3, 28, 28, 1)[..., 0],
        np.zeros(3, np.uint8),
    ]


PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("component", "folder"),
    [(Mnist, "mnist"), (Mnist, "MNIST/raw"), (FashionMnist, "fashion_mnist"), (FashionMnist, "FashionMNIST/raw")],
)
def test_idx_files_are_read(tmp_path, digits, component, folder, ending):
    for part, values in zip(PARTS, digits, strict=True):
        idx(tmp_path / folder / f"{part}{ending}", values)
    data = component().load((tmp_path,))
    assert np.array_equal(data.train.x[:, 0].numpy(), digits[0])
    assert data.train.y.tolist() == digits[1].tolist()
    assert np.array_equal(data.test.x[:, 0].numpy(), digits[2])
    assert (data.classes, data.shape, len(data.names)) == (10, (1, 28, 28), 10)


@pytest.mark.parametrize(
    ("part", "damage", "said"),
    [
        (0, lambda raw: raw[:-1], "holds 4703 values; its header promises 4704"),
        (0, lambda raw: raw[:7], "not an idx file"),
        (0, lambda raw: b"", "not an idx file"),
        (1, lambda raw: raw[:3] + b"\x03" + raw[4:], "1 axes"),
        (1, lambda raw: raw[:-1] + b"\x0a", "label 10, but there are 10 classes"),
        (3, lambda raw: raw[:7] + b"\x02" + raw[8:-1], r"shape \(2,\); expected \(3,\)"),
    ],
)
def test_a_damaged_idx_file_is_named(tmp_path, digits, part, damage, said):
    for name, values in zip(PARTS, digits, strict=True):
        idx(tmp_path / "mnist" / name, values)
    path = tmp_path / "mnist" / PARTS[part]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SplitbenchError, match=said) as error:
        Mnist().load((tmp_path,))
    assert str(path) in str(error.value)


def test_a_damaged_or_missing_idx_gz_is_named(tmp_path, digits):
    for name, values in zip(PARTS, digits, strict=True):
        idx(tmp_path / "mnist" / f"{name}.gz", values)
    last = tmp_path / "mnist" / f"{PARTS[3]}.gz"
    last.write_bytes(last.read_bytes()[:-9])
    with pytest.raises(SplitbenchError, match=f"{PARTS[3]}.gz cannot be read"):
        Mnist().load((tmp_path,))
    last.unlink()
    with pytest.raises(SplitbenchError, match=f"neither {PARTS[3]} nor"):
        Mnist().load((tmp_path,))


BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]


@pytest.fixture
def batches() -> list[tuple[np.ndarray, list[int]]]:
    return [(RNG.integers(0, 256, (4, 3072), dtype=np.uint8), RNG.integers(0, 10, 4).tolist()) for _ in BATCHES]


def binary(root: Path, batches) -> None:
    root.mkdir(parents=True)
    for name, (x, y) in zip(BATCHES, batches, strict=True):
        np.column_stack([np.array(y, np.uint8), x]).tofile(root / f"{name}.bin")


def python(root: Path, batches) -> None:
    """As Python 2 wrote them: protocol 2, with bytes for keys and numpy 1's name for its module."""
    root.mkdir(parents=True)
    for name, (x, y) in zip(BATCHES, batches, strict=True):
        raw = pickle.dumps({b"data": x, b"labels": y, b"batch_label": b"batch"}, protocol=2)
        (root / name).write_bytes(raw.replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray"))


@pytest.mark.parametrize(
    ("write", "folder"),
    [
        (binary, "cifar-10-batches-bin"),
        (binary, "cifar10/cifar-10-batches-bin"),
        (python, "cifar-10-batches-py"),
        (python, "cifar10/cifar-10-batches-py"),
    ],
)
def test_both_versions_of_cifar_are_read(tmp_path, batches, write, folder):
    write(tmp_path / folder, batches)
    data = Cifar10().load((tmp_path,))
    assert np.array_equal(data.train.x.flatten(1).numpy(), np.concatenate([x for x, _ in batches[:5]]))
    assert data.train.y.tolist() == [label for _, y in batches[:5] for label in y]
    assert np.array_equal(data.test.x.flatten(1).numpy(), batches[5][0])
    # Planes of red, green and blue, each by rows.
    assert data.train.x[2, 1, 5, 7] == batches[0][0][2, 1024 + 5 * 32 + 7]
    assert (data.classes, data.shape, data.names[9]) == (10, (3, 32, 32), "truck")


def test_a_binary_batch_cut_short_missing_or_mislabelled_is_named(tmp_path, batches):
    root = tmp_path / "cifar-10-batches-bin"
    binary(root, batches)
    path = root / "data_batch_3.bin"
    whole = path.read_bytes()
    for raw, said in ((whole[:-1], "whole number of records"), (b"", "0 bytes"), (b"\xff" + whole[1:], "label 255")):
        path.write_bytes(raw)
        with pytest.raises(SplitbenchError, match=said) as error:
            Cifar10().load((tmp_path,))
        assert str(path) in str(error.value)
    path.unlink()
    with pytest.raises(SplitbenchError, match=r"data_batch_3.bin cannot be read"):
        Cifar10().load((tmp_path,))


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ([1, 2], "not a dictionary"),
        ({b"labels": [1]}, "'data' is not an array"),
        ({b"data": np.zeros((2, 3000), np.uint8), b"labels": [1, 2]}, "rows of 3072"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "expected .2,., one label"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, "x"]}, "not a list of whole numbers"),
    ],
)
def test_a_python_batch_of_something_else_is_refused(tmp_path, batches, batch, said):
    root = tmp_path / "cifar-10-batches-py"
    python(root, batches)
    (root / "data_batch_2").write_bytes(pickle.dumps(batch, protocol=2))
    with pytest.raises(SplitbenchError, match=said):
        Cifar10().load((tmp_path,))


def test_threads_keep_images_in_order(tmp_path):
    from PIL import Image

    x = pictures(40, 5, 7)
    paths = [tmp_path / f"{n}.png" for n in range(40)]
    for path, image in zip(paths, x, strict=True):
        Image.fromarray(image).save(path)
    assert np.array_equal(_images.decode(paths, (5, 7)).numpy(), x.transpose(0, 3, 1, 2))
