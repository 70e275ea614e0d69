"""What is accepted in an .npz, and what is said about the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _written import arrays, pictures

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth
from splitbench.data._formats import npz as _npz
from splitbench.data.celeba import CelebA
from splitbench.data.cifar10 import Cifar10
from splitbench.data.lfw import Lfw
from splitbench.metrics.accuracy import Accuracy
from splitbench.metrics.mcc import MCC


@pytest.fixture
def write(tmp_path):
    def write(**values):
        np.savez_compressed(tmp_path / "own.npz", **values)
        return tmp_path / "own.npz"

    return write


def test_pixels_and_labels_arrive_where_they_were(write):
    given = arrays(classes=3)
    data = _npz.read(write(**given), "own")
    assert data.train.x.dtype == torch.uint8
    assert data.train.x.is_contiguous()
    for n, c, h, w in ((0, 0, 0, 0), (3, 2, 5, 1), (11, 1, 7, 6)):
        assert data.train.x[n, c, h, w] == given["x_train"][n, h, w, c]
    assert data.test.y.tolist() == given["y_test"].tolist()
    assert data.train.y.dtype == torch.int64
    assert (data.classes, data.names, data.task, data.shape) == (3, (), "classes", (3, 8, 8))


def test_names_in_the_file_decide_how_many_classes_there_are(write):
    data = _npz.read(write(**arrays(classes=2), classes=np.array(["a", "b", "c"])), "own")
    assert (data.classes, data.names) == (3, ("a", "b", "c"))


def test_whole_labels_written_as_floats_are_labels(write):
    given = arrays()
    data = _npz.read(write(**given | {"y_train": given["y_train"].astype(np.float64)}), "own")
    assert data.train.y.tolist() == given["y_train"].tolist()


def changed(**values):
    return lambda given: given | values


def without(name):
    return lambda given: {key: value for key, value in given.items() if key != name}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("y_test"), "has no array 'y_test'; did you mean 'x_test'"),
        (without("x_train"), "has no array 'x_train'"),
        (changed(x_train=pictures(12).astype(np.int32)), "x_train is int32; images are uint8"),
        (changed(x_train=pictures(12) / 255), "x_train is float64; images are uint8"),
        (changed(x_train=np.full((12, 8, 8, 3), np.nan)), "x_train holds NaN"),
        (changed(x_test=pictures(6)[..., 0]), "last axis of 1"),
        (changed(x_test=pictures(6)[0, 0]), r"x_test has shape \(8, 3\)"),
        (changed(x_train=pictures(12).transpose(0, 3, 1, 2)), r"transpose\(0, 2, 3, 1\)"),
        (changed(x_train=pictures(12, 0, 8)), "x_train has shape"),
        (changed(x_test=pictures(6, 9, 9)), "different shapes"),
        (changed(x_train=pictures(0), y_train=np.zeros(0, int)), "x_train is empty"),
        (changed(x_test=pictures(0), y_test=np.zeros(0, int)), "x_test is empty"),
        (changed(y_train=np.zeros(11, int)), r"y_train has shape \(11,\); expected \(12,\)"),
        (changed(y_train=np.zeros((12, 1), int)), r"y_train has shape \(12, 1\)"),
        (changed(y_train=np.array(["a"] * 12)), "y_train is <U1; expected whole numbers"),
        (changed(y_train=np.full(12, 0.5)), "y_train holds fractions"),
        (changed(y_train=np.full(12, np.nan)), "y_train holds NaN"),
        (changed(y_test=np.array([0, 1, 2, -1, 0, 0])), "y_test holds the label -1"),
        (changed(classes=np.array(["a", "b"])), "y_train holds the label 2, but there are 2 classes"),
        (changed(classes=np.array([1, 2])), "classes is int64"),
        (changed(y_train=np.array([10**9] * 12)), "number the classes from 0"),
        (changed(y_train=np.array([{}] * 12)), "y_train cannot be read"),
    ],
)
def test_each_mistake_is_named_with_its_file_and_array(write, change, said):
    path = write(**change(arrays(classes=3)))
    with pytest.raises(SplitbenchError, match=said) as error:
        _npz.read(path, "own")
    assert str(path) in str(error.value)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_called_damaged(write, kept):
    path = write(**arrays())
    whole = path.read_bytes()
    path.write_bytes(whole[: kept if isinstance(kept, int) else int(kept * len(whole))])
    with pytest.raises(SplitbenchError, match=r"own\.npz"):
        _npz.read(path, "own")


def test_scrambled_bytes_inside_are_called_damaged(write):
    path = write(**arrays())
    raw = bytearray(path.read_bytes())
    raw[200:260] = bytes(60)
    path.write_bytes(raw)
    with pytest.raises(SplitbenchError, match="x_train cannot be read"):
        _npz.read(path, "own")


def test_a_single_array_under_the_name_of_several_is_refused(tmp_path):
    path = tmp_path / "own.npz"
    with path.open("wb") as file:
        np.save(file, pictures(3))
    with pytest.raises(SplitbenchError, match="single array"):
        _npz.read(path, "own")


def test_a_pickle_under_the_name_of_an_npz_is_not_run(tmp_path):
    path = tmp_path / "own.npz"
    path.write_bytes(b"cos\nsystem\n(S'touch " + str(tmp_path / "hacked").encode() + b"'\ntR.")
    with pytest.raises(SplitbenchError, match="not a readable"):
        _npz.read(path, "own")
    assert not (tmp_path / "hacked").exists()


def faces(**changes):
    return {
        "x_train": pictures(6, 64, 64),
        "attributes_train": np.arange(18).reshape(6, 3) % 2,
        "identity_train": np.array([0, 0, 1, 1, -1, -1]),
        "x_test": pictures(2, 64, 64),
        "attributes_test": np.zeros((2, 3), bool),
        "identity_test": np.array([0, 1]),
        "attribute_names": np.array(["Bald", "Young", "Smiling"]),
    } | changes


def test_attributes_are_zeros_and_ones_and_identities_are_kept_beside_them(write):
    data = _npz.read(write(**faces()), "own")
    assert (data.task, data.classes, data.names) == ("attributes", 3, ("Bald", "Young", "Smiling"))
    assert data.train.y.dtype == torch.int64
    assert data.train.y.tolist() == faces()["attributes_train"].tolist()
    assert data.train.extras["identity"].tolist() == [0, 0, 1, 1, -1, -1]


def test_attributes_can_be_scored_against_the_logits_of_a_network(tmp_path):
    np.savez(tmp_path / "celeba.npz", **faces())
    data = CelebA().load((tmp_path,))
    assert data.train.y.dtype == data.test.y.dtype == torch.int64
    truth = Truth(data.train.y, data.train.extras)
    right = data.train.y * 2.0 - 1
    for metric in (Accuracy(), MCC()):
        assert metric.applies(truth) is None
        assert metric(right, truth).mean() == pytest.approx(1)
        assert metric(-right, truth).mean() < 0.5
    assert metric.applies(Truth.of(data.train.y.float())) is not None, "as floats they were refused"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attributes_test": np.full((2, 3), -1)}, "attributes_test holds -1; attributes are 0 or 1"),
        ({"attributes_test": np.zeros((2, 4))}, r"attributes_test has shape \(2, 4\); expected \(2, 3\)"),
        ({"attributes_test": np.zeros(2)}, r"attributes are \(N, A\)"),
        ({"identity_test": np.zeros(3, int)}, "identity_test has shape"),
    ],
)
def test_mistakes_in_attributes_are_named(write, changes, said):
    with pytest.raises(SplitbenchError, match=said):
        _npz.read(write(**faces(**changes)), "own")


def test_celeba_comes_in_the_size_asked_for(tmp_path):
    np.savez(tmp_path / "celeba.npz", **faces())
    assert CelebA().load((tmp_path,)).shape == (3, 64, 64)
    small = CelebA(size=32).load((tmp_path,))
    assert small.shape == (3, 32, 32)
    means = torch.from_numpy(faces()["x_train"].astype(np.float32)).mean()
    assert abs(small.train.x.float().mean() - means) < 2


def test_a_named_data_set_has_the_shape_it_is_known_for(tmp_path):
    np.savez(tmp_path / "cifar10.npz", **arrays())
    with pytest.raises(SplitbenchError, match="images of 8x8x3; expected 32x32x3"):
        Cifar10().load((tmp_path,))


def test_people_with_few_images_are_left_out_and_the_rest_numbered_anew(tmp_path):
    who = np.array([0] * 5 + [1] * 2 + [2] * 4)
    np.savez(
        tmp_path / "lfw.npz",
        x_train=pictures(11, 64, 64),
        identity_train=who,
        gender_train=who - 1,
        x_test=pictures(3, 64, 64),
        identity_test=np.array([0, 1, 2]),
        gender_test=np.array([-1, 0, 1]),
        identity_names=np.array(["Ann", "Bob", "Cy"]),
    )
    data = Lfw(minimum=5).load((tmp_path,))
    assert (data.classes, data.names) == (2, ("Ann", "Cy"))
    assert data.train.y.tolist() == [0] * 5 + [1] * 4
    assert data.train.extras["gender"].tolist() == [-1] * 5 + [1] * 4
    assert data.test.y.tolist() == [0, 1]
    with pytest.raises(SplitbenchError, match=r"nobody with 20 images or more; the most anyone has is 6"):
        Lfw().load((tmp_path,))
