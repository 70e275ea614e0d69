"""Data sets that come as folders of image files, in miniature."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from splitbench.core.errors import SplitbenchError
from splitbench.data._formats.holdout import last_fifth
from splitbench.data.celeba import CelebA
from splitbench.data.lfw import Lfw
from splitbench.data.tiny_imagenet import TinyImagenet


def flat(path, colour, size=(64, 64)):
    """An image of one colour, which a JPEG keeps to within a level or two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path, "JPEG", quality=95)


def colours(x):
    return x.float().mean((2, 3)).round().int().tolist()


def near(found, expected):
    return np.abs(np.array(found) - np.array(expected)).max() <= 3


@pytest.fixture
def tiny(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    for index, wnid in enumerate(("n02", "n01", "n03")):
        for image in range(2):
            flat(root / "train" / wnid / "images" / f"{wnid}_{image}.JPEG", (80 * index, 40, image * 99))
    flat(root / "val" / "images" / "val_0.JPEG", (9, 9, 200))
    Image.new("L", (64, 64), 50).save(root / "val" / "images" / "val_1.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn03\t0\t0\t1\t1\nval_1.JPEG\tn01\t0\t0\t1\t1\n")
    (root / "words.txt").write_text("n01\tgoldfish, Carassius\nn03\ttench\n")
    return root


def test_tiny_imagenet_is_read_with_its_validation_images_as_the_test_split(tmp_path, tiny):
    data = TinyImagenet().load((tmp_path,))
    assert data.names == ("goldfish, Carassius", "n02", "tench")
    assert data.train.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert near(
        colours(data.train.x), [[80, 40, 0], [80, 40, 99], [0, 40, 0], [0, 40, 99], [160, 40, 0], [160, 40, 99]]
    )
    assert data.test.y.tolist() == [2, 0]
    assert near(colours(data.test.x), [[9, 9, 200], [50, 50, 50]])
    assert (data.classes, data.shape) == (3, (3, 64, 64))


def test_what_is_missing_of_tiny_imagenet_is_named(tmp_path, tiny):
    annotations = tiny / "val" / "val_annotations.txt"
    annotations.write_text("val_0.JPEG\tn09\t0\t0\t1\t1\n")
    with pytest.raises(SplitbenchError, match="line 1: no class 'n09'"):
        TinyImagenet().load((tmp_path,))
    annotations.unlink()
    with pytest.raises(SplitbenchError, match=r"val_annotations\.txt is missing"):
        TinyImagenet().load((tmp_path,))
    for image in (tiny / "train").rglob("*.JPEG"):
        image.unlink()
    with pytest.raises(SplitbenchError, match="holds no <class>/images"):
        TinyImagenet().load((tmp_path,))


def test_a_damaged_image_is_named(tmp_path, tiny):
    damaged = tiny / "train" / "n02" / "images" / "n02_1.JPEG"
    damaged.write_bytes(damaged.read_bytes()[:200])
    with pytest.raises(SplitbenchError, match=r"n02_1\.JPEG cannot be read as an image"):
        TinyImagenet().load((tmp_path,))


ATTRIBUTES = [f"Attribute_{n}" for n in range(40)]
SIGNS = np.where(np.arange(5 * 40).reshape(5, 40) % 3, 1, -1)


@pytest.fixture(params=["", "drive"])
def celeba(tmp_path, request):
    """Five people, one of them in the validation partition; flat, or in the folders of the authors' drive."""
    root = tmp_path / "celeba"
    anno, evaluation, img = (root / part if request.param else root for part in ("Anno", "Eval", "Img"))
    for n in range(5):
        path = img / "img_align_celeba" / f"{n + 1:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        # 178 x 218, red where the usual crop cuts away.
        image = Image.new("RGB", (178, 218), (255, 0, 0))
        image.paste((0, 40 * n, 0), (0, 20, 178, 198))
        image.save(path, quality=95)
    for folder in (anno, evaluation):
        folder.mkdir(exist_ok=True)
    rows = [f"{n + 1:06}.jpg " + " ".join(f"{sign:2}" for sign in SIGNS[n]) for n in range(5)]
    (anno / "list_attr_celeba.txt").write_text("\n".join(["5", " ".join(ATTRIBUTES) + " ", *rows]) + "\n")
    (anno / "identity_CelebA.txt").write_text("".join(f"{n + 1:06}.jpg {100 + n}\n" for n in range(5)))
    parts = [0, 2, 0, 1, 2]
    (evaluation / "list_eval_partition.txt").write_text(
        "".join(f"{n + 1:06}.jpg {parts[n]}\n" for n in reversed(range(5)))
    )
    return root


def test_celeba_is_read_from_its_lists_and_images(tmp_path, celeba):
    data = CelebA(size=32).load((tmp_path,))
    assert (data.task, data.classes, data.names) == ("attributes", 40, tuple(ATTRIBUTES))
    assert data.shape == (3, 32, 32)
    assert data.train.y.tolist() == ((SIGNS[[0, 2]] + 1) // 2).tolist()
    assert data.test.y.tolist() == ((SIGNS[[1, 4]] + 1) // 2).tolist()
    assert data.train.extras["identity"].tolist() == [100, 102]
    assert data.test.extras["identity"].tolist() == [101, 104]
    assert near(colours(data.train.x[:, :, 4:-4]), [[0, 0, 0], [0, 80, 0]])
    assert data.train.x[:, 0, 2:-2].max() < 60, "the crop leaves out what is above and below the face"


@pytest.mark.parametrize("file", ["identity_CelebA.txt", "list_eval_partition.txt", "img_align_celeba"])
def test_what_is_missing_of_celeba_is_named(tmp_path, celeba, file):
    found = next(celeba.rglob(file))
    found.rename(found.with_name("elsewhere"))
    with pytest.raises(SplitbenchError, match=file):
        CelebA().load((tmp_path,))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("identity_CelebA.txt", "000001.jpg 4\n", "lacks 4 of the images"),
        ("identity_CelebA.txt", "", "not what CelebA publishes"),
        ("list_eval_partition.txt", "".join(f"{n:06}.jpg 1\n" for n in range(1, 6)), "partition empty"),
        ("list_attr_celeba.txt", "1\nBald Young\n000001.jpg 1 -1\n", "2 columns"),
        ("list_attr_celeba.txt", "1\nBald Young\n000001.jpg 1 x\n", "not what CelebA publishes"),
        (
            "list_attr_celeba.txt",
            f"1\n{' '.join(ATTRIBUTES)}\n000001.jpg {'0 ' * 40}\n",
            "attributes are 0 or 1|fractions",
        ),
    ],
)
def test_a_list_that_is_not_celebas_is_named(tmp_path, celeba, file, text, said):
    path = next(celeba.rglob(file))
    path.write_text(text)
    if file == "list_attr_celeba.txt":
        next(celeba.rglob("list_eval_partition.txt")).write_text("000001.jpg 0\n")
    with pytest.raises(SplitbenchError, match=said) as error:
        CelebA().load((tmp_path,))
    assert file in str(error.value)


def test_lfw_keeps_people_with_enough_images_and_holds_the_last_of_each_back(tmp_path):
    for person, count, red in (("Ann_Ace", 10, 0), ("Bob_Bee", 3, 90), ("Cy_Cee", 6, 180)):
        for n in range(1, count + 1):
            flat(tmp_path / "lfw" / person / f"{person}_{n:04}.jpg", (red, 20 * n, 0), (250, 250))
    data = Lfw(size=16, minimum=5).load((tmp_path,))
    assert (data.classes, data.names, data.shape) == (2, ("Ann_Ace", "Cy_Cee"), (3, 16, 16))
    assert data.train.y.tolist() == [0] * 8 + [1] * 5
    assert data.test.y.tolist() == [0, 0, 1]
    assert near(colours(data.test.x), [[0, 180, 0], [0, 200, 0], [180, 120, 0]])
    assert data.train.extras["gender"].tolist() == [-1] * 13
    with pytest.raises(SplitbenchError, match="the most anyone has is 10"):
        Lfw().load((tmp_path,))


def test_a_fifth_of_every_class_is_held_back_and_never_all_of_it():
    counts = np.array([1, 2, 4, 5, 9, 10, 100])
    y = np.repeat(np.arange(7), counts)
    held = last_fifth(y)
    assert np.bincount(y[held], minlength=7).tolist() == [0, 1, 1, 1, 1, 2, 20]
    assert [int(held[y == k].argmax()) for k in range(1, 7)] == [1, 3, 4, 8, 8, 80]
