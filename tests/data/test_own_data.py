"""A path in the place of a data set's name."""

from __future__ import annotations

import numpy as np
import pytest
from _written import arrays, pictures
from PIL import Image

from splitbench.core import registry
from splitbench.core.component import validated
from splitbench.core.errors import SplitbenchError
from splitbench.data._adopt import adopt


def save(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.squeeze()).save(path)


def load(path, **settings):
    return registry.load("data", str(path))(**settings).load(())


def test_an_npz_is_data_with_its_classes_counted_from_the_labels(tmp_path):
    given = arrays(classes=4)
    np.savez(tmp_path / "mine.npz", **given)
    data = load(tmp_path / "mine.npz")
    assert (data.name, data.classes) == ("mine", 4)
    assert data.train.y.tolist() == given["y_train"].tolist()


def test_a_relative_path_will_do(tmp_path, monkeypatch):
    np.savez(tmp_path / "mine.npz", **arrays())
    monkeypatch.chdir(tmp_path)
    assert load("mine.npz").classes == 3
    assert load("./mine.npz").classes == 3


def test_a_changed_file_is_another_version_and_a_copied_one_is_not(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays())
    before = registry.load("data", str(path)).version
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.npz").write_bytes(path.read_bytes())
    assert registry.load("data", str(tmp_path / "other" / "mine.npz")).version == before
    np.savez(path, **arrays(train=13))
    assert registry.load("data", str(path)).version != before


def test_folders_of_train_and_test_images_are_data(tmp_path):
    x = pictures(7)
    places = [
        "train/cat/a.png",
        "train/cat/b.PNG",
        "train/dog/a.png",
        "test/cat/a.png",
        "test/dog/a.png",
        "test/dog/b.png",
    ]
    for image, place in zip(x, places, strict=False):
        save(tmp_path / "pets" / place, image)
    (tmp_path / "pets" / "train" / "cat" / "notes.txt").touch()
    (tmp_path / "pets" / "train" / ".hidden").mkdir()
    data = load(tmp_path / "pets")
    assert (data.name, data.classes, data.names) == ("pets", 2, ("cat", "dog"))
    assert np.array_equal(data.train.x.numpy(), x[:3].transpose(0, 3, 1, 2))
    assert data.train.y.tolist() == [0, 0, 1]
    assert np.array_equal(data.test.x.numpy(), x[3:6].transpose(0, 3, 1, 2))
    assert data.test.y.tolist() == [0, 1, 1]


def test_folders_of_classes_are_split_the_same_way_every_time(tmp_path):
    for kind in ("cat", "dog"):
        for n, image in enumerate(pictures(10, channels=1)):
            save(tmp_path / "pets" / kind / f"{n}.png", image)
    first, second = load(tmp_path / "pets"), load(tmp_path / "pets")
    assert (len(first.train), len(first.test)) == (16, 4)
    assert first.test.y.tolist() == [0, 0, 1, 1]
    assert first.digest == second.digest
    assert first.shape == (1, 8, 8), "grey images have one channel"


def test_images_of_several_sizes_need_to_be_told_one(tmp_path):
    for kind in ("cat", "dog"):
        for n, size in enumerate((8, 8, 12)):
            save(tmp_path / "pets" / kind / f"{n}.png", pictures(1, size, size)[0])
    with pytest.raises(SplitbenchError, match=r"0\.png is 8x8, .*2\.png is 12x12. Set `size`"):
        load(tmp_path / "pets")
    assert load(tmp_path / "pets", size=10).shape == (3, 10, 10)
    component = registry.load("data", str(tmp_path / "pets"))
    assert validated(component, {"size": 10}, "data") == ({"size": 10}, [])
    assert validated(component, {"size": -1}, "data")[1]


def test_a_mix_of_grey_and_colour_is_colour_and_sixteen_bits_are_refused(tmp_path):
    save(tmp_path / "pets" / "cat" / "a.png", pictures(1, channels=1)[0])
    save(tmp_path / "pets" / "cat" / "b.png", pictures(1)[0])
    assert load(tmp_path / "pets").shape == (3, 8, 8)
    Image.fromarray(np.full((8, 8), 40000, np.uint16)).save(tmp_path / "pets" / "cat" / "c.png")
    with pytest.raises(SplitbenchError, match=r"c\.png has pixels of kind 'I;16'"):
        load(tmp_path / "pets")


@pytest.mark.parametrize("name", ["cifar1O", "nothing-here", "mnist.npy"])
def test_a_name_that_is_no_path_is_left_to_others(name):
    assert adopt(name, None) is None


def test_a_thing_that_was_imported_is_left_to_others(tmp_path):
    assert adopt(str(tmp_path), object()) is None


def test_a_path_that_leads_nowhere_is_an_error_with_the_nearest_name(tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays())
    with pytest.raises(SplitbenchError, match=r"no file or folder '.*mime\.npz'; did you mean '.*mine\.npz'"):
        registry.load("data", str(tmp_path / "mime.npz"))
    with pytest.raises(SplitbenchError, match=r"no file or folder 'absent\.npz'"):
        registry.load("data", "absent.npz")
    with pytest.raises(SplitbenchError, match=r"no file or folder 'no/where'$"):
        registry.load("data", "no/where")


def test_folders_and_files_of_another_shape_are_refused_with_what_is_wanted(tmp_path):
    root = tmp_path / "pets"
    root.mkdir()
    with pytest.raises(SplitbenchError, match=r"it must be an \.npz with x_train"):
        registry.load("data", str(root))
    (tmp_path / "pets.tsv").touch()
    with pytest.raises(SplitbenchError, match=r"it must be an \.npz with x_train"):
        registry.load("data", str(tmp_path / "pets.tsv"))
    (root / "train" / "cat").mkdir(parents=True)
    with pytest.raises(SplitbenchError, match="no folder 'test'"):
        registry.load("data", str(root))
    (root / "test" / "cats").mkdir(parents=True)
    with pytest.raises(SplitbenchError, match="train/cat holds no images"):
        registry.load("data", str(root))
    save(root / "train" / "cat" / "a.png", pictures(1)[0])
    save(root / "test" / "cats" / "a.png", pictures(1)[0])
    with pytest.raises(SplitbenchError, match="test/cats has no counterpart in 'train'; did you mean 'cat'"):
        registry.load("data", str(root))


def test_too_few_images_to_hold_any_back_is_an_error(tmp_path):
    save(tmp_path / "pets" / "cat" / "a.png", pictures(1)[0])
    with pytest.raises(SplitbenchError, match="too few images"):
        load(tmp_path / "pets")
