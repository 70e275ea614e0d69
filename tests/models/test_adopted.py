"""Networks that are not written for splitbench: timm's by name, the user's as a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from splitbench.core.component import settings_of, validated
from splitbench.core.errors import SplitbenchError
from splitbench.core.model import Model
from splitbench.core.registry import load
from splitbench.models._adopt import adopt

OWN = """
import torch
from torch import nn

class Net(nn.Module):
    "A small network."
    def __init__(self, channels, classes, width=6):
        super().__init__()
        self.head = nn.Linear(width, classes)
        self.body = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.unused = nn.Linear(2, 2)
        self.stem = nn.Conv2d(channels, channels, 1)
    def forward(self, x):
        return self.head(self.flat(self.pool(self.body(self.stem(x)))))

def make(shape, size, classes):
    assert size == shape[-1]
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * size * size, 8), nn.ReLU(), nn.Linear(8, classes))

class Text(nn.Module):
    modality = "text"
    def __init__(self, size, classes):
        super().__init__()
        self.words = nn.Embedding(50, 4)
        self.flat = nn.Flatten()
        self.head = nn.Linear(4 * size, classes)
    def forward(self, x):
        return self.head(self.flat(self.words(x)))

class Measuring(nn.Module):
    "Needs numbers while it is made."
    def __init__(self, channels, size, classes):
        super().__init__()
        self.body = nn.Conv2d(channels, 3, 3)
        self.flat = nn.Flatten()
        n = self.flat(self.body(torch.rand(1, channels, size, size))).sum().mul(0).add(3 * (size - 2) ** 2).item()
        self.head = nn.Linear(int(n), classes)
    def forward(self, x):
        return self.head(self.flat(self.body(x)))

class Wanting(nn.Module):
    def __init__(self, classes, flavour):
        super().__init__()

def nothing(classes):
    return "a string"

class Plain:
    pass

instance = nn.Linear(2, 2)
number = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(OWN)
    return path


def assert_every_cut_works(model: Model, shape: tuple[int, ...], classes: int, x: torch.Tensor) -> None:
    network = model.build(shape, classes).eval()
    expected = network(x)
    assert expected.shape == (len(x), classes)
    cuts = list(model.cuts)
    for places in [*((place,) for place in cuts), (cuts[0], cuts[-1])]:
        split = model.split(network, places)
        split.eval()
        torch.testing.assert_close(split.joined(x), expected)
        assert split.stages[-1].state_dict(), "the last cut comes before the head"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("mobilenetv3_small_050", "conv_stem", "flatten"), ("convnext_atto", "stem", "norm_pre")],
)
def test_any_network_of_timm_can_be_named_and_cut_at_its_children(name: str, first: str, last: str) -> None:
    model = load("models", name)()
    assert isinstance(model, Model)
    cuts = list(model.cuts)
    assert (cuts[0], cuts[-1]) == (first, last)
    assert_every_cut_works(model, (1, 32, 32), 7, torch.rand(2, 1, 32, 32))


def test_a_network_of_timm_with_fixed_input_is_made_for_the_datas_size() -> None:
    model = load("models", "deit_tiny_patch16_224")()
    network = model.build((3, 32, 32), 4)
    assert network.pos_embed.shape == (1, 1 + 4, 192)


def test_a_network_of_timm_that_cannot_take_the_images_says_so_when_built() -> None:
    with pytest.raises(SplitbenchError, match=r"inception_v3 cannot take samples of shape \(3, 32, 32\)"):
        load("models", "inception_v3")().build((3, 32, 32), 10)
    with pytest.raises(SplitbenchError, match="takes images"):
        load("models", "regnetx_002")().build((8,), 10)


def test_weights_of_a_network_of_timm_are_read_but_for_a_head_of_other_classes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = load("models", "mobilenetv3_small_050")().build((3, 32, 32), 1000)
    save_file(trained.state_dict(), tmp_path / "model.safetensors")
    tuned = load("models", "mobilenetv3_small_050")(weights=str(tmp_path)).build((3, 32, 32), 4)
    assert torch.equal(tuned.conv_stem.weight, trained.conv_stem.weight)
    assert tuned.classifier.weight.shape == (4, 1024)


def test_nothing_is_downloaded_unless_the_user_has_weights() -> None:
    assert {name: field.default for name, field in settings_of(load("models", "convnext_atto")).items()} == {
        "weights": ""
    }


def test_settings_of_adopted_networks_are_checked_as_any_others(own: Path) -> None:
    _, mistakes = validated(load("models", "convnext_atto"), {"wieghts": "x"}, "model")
    assert "did you mean 'weights'?" in mistakes[0].what
    _, mistakes = validated(load("models", f"{own}:Net"), {"width": 3}, "model")
    assert "has no settings" in mistakes[0].what


def test_a_class_of_the_users_is_a_model_cut_at_its_children_in_the_order_data_flows(own: Path) -> None:
    component = load("models", f"{own}:Net")
    assert component.__doc__ == "A small network."
    model = component()
    assert list(model.cuts) == ["stem", "body", "pool", "flat"]
    assert_every_cut_works(model, (1, 28, 28), 5, torch.rand(2, 1, 28, 28))
    split = model.split(model.build((1, 28, 28), 5), ("body.0",))
    assert split.parameters("client") == 2 + 60


def test_a_function_of_the_users_is_a_model_too(own: Path) -> None:
    assert_every_cut_works(load("models", f"{own}:make")(), (3, 8, 8), 5, torch.rand(2, 3, 8, 8))


def test_a_network_for_texts_says_so_by_its_modality(own: Path) -> None:
    model = load("models", f"{own}:Text")()
    assert model.modality == "text"
    assert list(model.cuts) == ["words", "flat"]
    assert_every_cut_works(model, (6,), 2, torch.randint(0, 50, (2, 6)))


def test_a_network_that_computes_while_it_is_made_works_and_leaves_the_random_state_alone(own: Path) -> None:
    model = load("models", f"{own}:Measuring")()
    assert_every_cut_works(model, (1, 8, 8), 2, torch.rand(2, 1, 8, 8))
    fresh = load("models", f"{own}:Measuring")()
    before = torch.random.get_rng_state()
    assert list(fresh.cuts) == ["body", "flat"]
    assert torch.equal(before, torch.random.get_rng_state())


def test_arguments_nothing_provides_are_named(own: Path) -> None:
    with pytest.raises(SplitbenchError, match="wants flavour, which nothing provides"):
        load("models", f"{own}:Wanting")().build((3, 8, 8), 2)


def test_a_function_that_returns_no_network_is_refused(own: Path) -> None:
    with pytest.raises(SplitbenchError, match=r"nothing returned a str, not an nn\.Module"):
        load("models", f"{own}:nothing")().build((3, 8, 8), 2)


@pytest.mark.parametrize("name", ["Plain", "instance", "number"])
def test_what_makes_no_network_is_not_adopted(own: Path, name: str) -> None:
    with pytest.raises(SplitbenchError, match=f"'{own}:{name}' is a .*, not a model"):
        load("models", f"{own}:{name}")


def test_a_name_that_nobody_knows_gets_the_nearest_of_ours() -> None:
    assert adopt("resnet81x", None) is None
    with pytest.raises(SplitbenchError, match="no model named 'resnet81x'; did you mean 'resnet18'"):
        load("models", "resnet81x")


def test_adopting_the_users_network_does_not_import_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splitbench.models._timm.package", None)
    assert adopt("net.py:Net", nn.Linear) is not None
    with pytest.raises(ImportError):
        adopt("resnet10t", None)


def test_adopted_networks_are_distinct_components() -> None:
    one, other = adopt("a.py:A", nn.Linear), adopt("a.py:B", nn.Conv2d)
    assert one is not other
    assert one is not None
    assert other is not None
    assert one().maker is nn.Linear
    assert other().maker is nn.Conv2d
