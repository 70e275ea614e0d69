"""Every data set of the registry, where its files are to be had: it loads, and a small network takes a step on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from splitbench.core.data import DataSet, as_input
from splitbench.core.metric import Truth
from splitbench.core.model import build_for
from splitbench.core.randomness import generator
from splitbench.core.registry import load, names
from splitbench.data._allocation.allocate import allocate
from splitbench.data._folders import EMBEDDED, search

COUNTS = {
    "mnist": (20_000, 4_000, (1, 28, 28), 10),
    "fashion_mnist": (20_000, 4_000, (1, 28, 28), 10),
    "fashion_mnist_mini": (3_000, 600, (1, 28, 28), 10),
    "cifar10": (12_000, 3_000, (3, 32, 32), 10),
    "tiny_imagenet": (1_200, 300, (3, 64, 64), 20),
    "celeba": (2_500, 300, (3, 64, 64), 40),
    "lfw": (1_054, 296, (3, 64, 64), 62),
    "imdb": (2_000, 2_000, (128,), 2),
    "criteo": (6_548, 1_636, (39,), 2),
}
# A small model of each kind.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "image": ("lenet5", {}),
    "text": ("roberta_small", {"layers": 1, "width": 16}),
    "tabular": ("field_mlp", {"width": 4, "hidden": 16}),
}


@pytest.fixture(params=names("data"), scope="module")
def real(request: pytest.FixtureRequest, shared_data: Path) -> DataSet:
    name = request.param
    component = load("data", name)
    folders = (shared_data, EMBEDDED)
    if search(component.files, folders) is None:
        pytest.skip(f"none of {', '.join(component.files)} in {shared_data}")
    if component.modality == "text":
        pytest.importorskip("tokenizers")
        pytest.importorskip("transformers")
    return component().load(folders)


def test_the_expectations_are_about_data_sets_there_are() -> None:
    assert set(COUNTS) <= set(names("data"))


@pytest.mark.parametrize("name", names("data"))
def test_every_data_set_declares_its_modality_in_its_own_file(name: str) -> None:
    assert "modality" in vars(load("data", name))


def test_it_loads_whole_and_its_samples_can_be_kept_apart(real: DataSet) -> None:
    name = real.name
    if name in COUNTS:
        assert (len(real.train), len(real.test), real.shape, real.classes) == COUNTS[name]
    assert len(real.names) == real.classes
    assert real.modality == load("data", name).modality
    assert real.task == ("attributes" if name == "celeba" else "classes")
    assert real.train.y.dtype == real.test.y.dtype == torch.int64
    dtypes = {"image": torch.uint8, "text": torch.int64, "tabular": torch.float32}
    assert real.train.x.dtype == real.test.x.dtype == dtypes[real.modality]
    assert len(real.fields) == (real.shape[0] if real.modality == "tabular" else 0)
    for part in (real.train, real.test):
        assert {len(values) for values in (part.x, part.y, *part.extras.values())} == {len(part)}
    if name == "celeba":
        assert set(real.train.y.unique().tolist()) == {0, 1}
        assert set(real.test.extras["identity"].tolist()) == set(range(50))
    else:
        assert set(real.train.y.tolist()) == set(range(real.classes))
    if real.modality == "image":
        # Photographs are neither black nor noise: neighbours resemble each other.
        x = real.test.x.float()
        assert (x[..., 1:] - x[..., :-1]).abs().mean() < 0.5 * x.std()
    if real.modality == "tabular":
        for column, field in enumerate(real.fields):
            values = torch.cat([real.train.x, real.test.x])[:, column]
            if field.categories:
                assert torch.equal(values, values.round())
                assert 0 <= values.min() <= values.max() == field.categories - 1
            else:
                assert real.train.x[:, column].mean().abs() < 1e-4
                assert real.train.x[:, column].std() < 1.01  # missing ones are all the mean
    allocate(real, 500, 200, 100, generator(0), candidates=100).check()


def test_one_step_of_training_lowers_the_loss_and_the_answers_can_be_scored(real: DataSet) -> None:
    name, settings = MODELS[real.modality]
    if real.modality == "text":
        settings = {**settings, "vocabulary": 1 + int(max(real.train.x.max(), real.test.x.max()))}
    torch.manual_seed(0)
    # Without dropout and in double precision: a short step along the gradient must then lower the loss.
    network = build_for(load("models", name)(**settings), real).double().eval()
    some = real.train.take(torch.linspace(0, len(real.train) - 1, 64).long())  # some files are sorted by class
    x = as_input(some.x)
    x = x.double() if x.is_floating_point() else x
    before = _loss(network(x), some.y, real)
    before.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    torch.optim.SGD(network.parameters(), lr=1e-3).step()
    logits = network(x).detach()
    assert _loss(logits, some.y, real) < before
    assert logits.shape == (64, real.classes)
    truth = Truth(some.y, some.extras, real.modality, real.fields)
    for metric in (load("metrics", "accuracy")(), load("metrics", "mcc")()):
        assert metric.applies(truth) is None
        values = metric(logits, truth)
        assert torch.isfinite(values).all()
        assert metric(_perfect(some.y, real), truth).mean() == pytest.approx(1)


def _loss(logits: torch.Tensor, y: torch.Tensor, data: DataSet) -> torch.Tensor:
    if data.task == "attributes":
        return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
    return F.cross_entropy(logits, y)


def _perfect(y: torch.Tensor, data: DataSet) -> torch.Tensor:
    return 2.0 * y - 1 if data.task == "attributes" else F.one_hot(y, data.classes).float()


def test_faces_of_one_data_set_can_be_auxiliary_to_those_of_another(shared_data: Path) -> None:
    celeba, lfw = (load("data", name)().load((shared_data,)) for name in ("celeba", "lfw"))
    allocation = allocate(celeba, 500, 200, 100, generator(0), public=lfw, candidates=50)
    allocation.check()
    assert torch.equal(
        allocation.samples("auxiliary").extras["gender"], lfw.train.extras["gender"][allocation.auxiliary]
    )
    alone = allocate(celeba, 500, 200, 100, generator(0))
    assert torch.equal(alone.private, allocation.private)
    assert torch.equal(alone.evaluation, allocation.evaluation)


def test_reviews_in_the_ids_of_a_pretrained_encoder_fit_it(shared_data: Path) -> None:
    pytest.importorskip("transformers")
    if not (shared_data / "weights" / "minilm").is_dir():
        pytest.skip(f"no weights/minilm in {shared_data}")
    data = load("data", "imdb")(length=16, tokenizer="weights/minilm").load((shared_data,))
    assert set(data.train.x[:, 0].tolist()) == {101}
    assert set(data.train.x[:, -1].tolist()) == {102}
    network = build_for(load("models", "minilm")(weights=str(shared_data / "weights" / "minilm")), data)
    assert network(data.train.x[:2]).shape == (2, 2)
