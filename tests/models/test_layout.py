"""What crosses a cut says what its axes mean."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from _small_models import FIELDS, batch_for, model, network_for, shape_for
from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank, on_grid, tiling
from splitbench.core.model import Model
from splitbench.core.registry import load, names
from splitbench.core.split import output_shape


def laid(chosen: Model, network: nn.Module, cut: str, sample: tuple[int, ...]) -> Layout:
    client = chosen.split(network, (cut,)).stages[0]
    smashed = output_shape(client, sample, torch.int64 if chosen.modality == "text" else torch.float32)
    return chosen.layout(cut, network, smashed, sample)


@pytest.mark.parametrize("name", [n for n in names("models") if n != "roberta_base"])
def test_every_cut_of_every_model_has_a_layout_of_the_shape_that_crosses(name: str) -> None:
    chosen = model(name)
    network = network_for(chosen, 5)
    for cut in chosen.cuts:
        client = chosen.split(network, (cut,)).stages[0].eval()
        x = batch_for(chosen)
        smashed = tuple(client(x if chosen.modality == "text" else x.float()).shape[1:])
        layout = chosen.layout(cut, network, smashed, shape_for(chosen))
        assert layout.shape == smashed
        if layout.kind != "vector":
            assert layout.channels * (layout.places + layout.prefix) == torch.Size(smashed).numel()


def test_convolutions_send_maps_and_linear_layers_vectors() -> None:
    chosen = model("lenet5")
    network = network_for(chosen, 5)
    maps = laid(chosen, network, "conv1", (3, 32, 32))
    assert maps == Layout("maps", (6, 28, 28))
    assert (maps.plane, maps.places, maps.channels) == (maps.shape[1:], maps.shape[1] * maps.shape[2], 6)
    vector = laid(chosen, network, "fc1", (3, 32, 32))
    assert vector == Layout("vector", (120,))
    assert (vector.plane, vector.places, vector.channels) == (None, 1, 120)


@pytest.mark.parametrize("cut", ["embed", "block1", "block2", "norm"])
def test_a_vision_transformers_tokens_are_a_grid_after_the_class_token(cut: str) -> None:
    chosen = load("models", "vit_tiny")(depth=2, width=12, heads=3, patch=4)
    layout = laid(chosen, chosen.build((3, 32, 16), 5), cut, (3, 32, 16))
    assert layout == Layout("tokens", (33, 12), prefix=1, grid=(8, 4))
    assert (layout.places, layout.plane, layout.channels) == (32, (8, 4), 12)


def test_a_vision_transformers_patches_are_a_grid_before_the_class_token_is_there() -> None:
    chosen = model("vit_tiny")
    network = network_for(chosen, 5)
    assert laid(chosen, network, "patch_embed", (3, 32, 32)) == Layout("tokens", (16, 12), grid=(4, 4))
    assert laid(chosen, network, "pool", (3, 32, 32)) == Layout("vector", (12,))


def test_the_grid_is_where_the_tokens_come_from() -> None:
    """The oracle: change one patch of the image and see which token changes."""
    chosen = load("models", "vit_tiny")(depth=1, width=12, heads=3, patch=4)
    network = chosen.build((1, 12, 20), 5).eval()
    client = chosen.split(network, ("embed",)).stages[0]
    layout = laid(chosen, network, "embed", (1, 12, 20))
    assert layout.grid == (3, 5)
    x = torch.zeros(1, 1, 12, 20)
    for row in range(3):
        for column in range(5):
            changed = x.clone()
            changed[..., 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1
            differs = (client(changed) != client(x))[0].any(1)
            assert differs.nonzero().flatten().tolist() == [layout.prefix + row * layout.grid[1] + column]


def test_pit_sends_its_grid_as_maps_and_its_class_token_alone_at_the_end() -> None:
    chosen = model("pit_tiny")
    network = network_for(chosen, 5)
    assert laid(chosen, network, "embed", (3, 32, 32)) == Layout("maps", (64, 4, 4))
    last = laid(chosen, network, "norm", (3, 32, 32))
    assert (last.kind, last.places, last.prefix, last.grid) == ("tokens", 0, 1, None)


@pytest.mark.parametrize("name", ["roberta_small", "minilm"])
def test_texts_are_tokens_without_prefix_or_grid(name: str) -> None:
    chosen = model(name)
    network = network_for(chosen, 2)
    for cut in ("embeddings", "embedded", "layer2"):
        layout = laid(chosen, network, cut, (8,))
        assert (layout.kind, layout.prefix, layout.grid, layout.places) == ("tokens", 0, None, 8)
    assert laid(chosen, network, "pool", (8,)).kind == "vector"


def test_rows_of_a_table_are_fields() -> None:
    chosen = model("field_mlp")
    network = network_for(chosen, 2)
    layout = laid(chosen, network, "fields", (len(FIELDS),))
    assert layout == Layout("fields", (len(FIELDS), 3))
    assert (layout.places, layout.channels, layout.plane) == (len(FIELDS), 3, None)
    assert laid(chosen, network, "hidden1", (len(FIELDS),)) == Layout("vector", (5,))


@pytest.mark.parametrize(
    ("name", "cut", "prefix"),
    [
        ("deit_tiny_patch16_224", "blocks", 1),
        ("deit_tiny_patch16_224", "patch_embed", 0),
        ("deit_tiny_distilled_patch16_224", "blocks", 2),
        ("vit_small_patch14_reg4_dinov2", "blocks", 5),
    ],
)
def test_a_transformer_of_timm_says_its_own_prefix_and_grid(name: str, cut: str, prefix: int) -> None:
    chosen = load("models", name)()
    side = 14 if "patch14" in name else 16
    sample = (3, 2 * side, 3 * side)
    network = chosen.build(sample, 2)
    layout = laid(chosen, network, cut, sample)
    assert (layout.kind, layout.prefix, layout.grid) == ("tokens", prefix, (2, 3))


def test_a_convolutional_network_of_timm_sends_maps() -> None:
    chosen = load("models", "convnext_atto")()
    assert laid(chosen, chosen.build((3, 32, 32), 2), "stem", (3, 32, 32)).plane == (8, 8)


OWN = """
import torch
from torch import nn

class Tokens(nn.Module):
    def __init__(self, channels, classes, patch=8):
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(channels, 6, patch, patch), nn.Flatten(2), Turn())
        self.marked = Mark(self.extra)
        self.mean = Mean()
        self.head = nn.Linear(6, classes)
    extra = 0
    def forward(self, x):
        return self.head(self.mean(self.marked(self.patches(x))))

class Turn(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)

class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)

class Mark(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.mark = nn.Parameter(torch.zeros(extra, 6))
    def forward(self, x):
        return torch.cat([self.mark.expand(len(x), -1, -1), x], 1)

class Silent(Tokens):
    extra = 1

class Prefixed(Tokens):
    extra = prefix_tokens = 2

class Both(Tokens):
    extra = prefix_tokens = 1
    grid = (2, 8)

class Wrong(Tokens):
    prefix_tokens = "two"

class Flat(Tokens):
    grid = 16

class Rows(nn.Module):
    modality = "tabular"
    def __init__(self, shape, classes, fields):
        super().__init__()
        self.count = len(fields)
        self.columns = nn.Unflatten(1, (shape[0], 1))
        self.wide = nn.Linear(1, 3)
        self.flat = nn.Flatten()
        self.head = nn.Linear(3 * shape[0], classes)
    def forward(self, x):
        return self.head(self.flat(self.wide(self.columns(x))))
"""


@pytest.mark.parametrize(
    ("name", "cut", "expected"),
    [
        ("Tokens", "patches", Layout("tokens", (16, 6), 0, (4, 4))),
        ("Silent", "marked", Layout("tokens", (17, 6))),
        ("Prefixed", "marked", Layout("tokens", (18, 6), 2, (4, 4))),
        ("Prefixed", "patches", Layout("tokens", (16, 6), 0, (4, 4))),
        ("Both", "marked", Layout("tokens", (17, 6), 1, (2, 8))),
        ("Both", "patches", Layout("tokens", (16, 6), 0, (2, 8))),
        ("Both", "mean", Layout("vector", (6,))),
    ],
)
def test_the_users_network_declares_prefix_and_grid_or_gets_what_tiles_the_image(
    tmp_path: Path, name: str, cut: str, expected: Layout
) -> None:
    (tmp_path / "net.py").write_text(OWN)
    chosen = load("models", f"{tmp_path / 'net.py'}:{name}")()
    assert laid(chosen, chosen.build((3, 32, 32), 2), cut, (3, 32, 32)) == expected


@pytest.mark.parametrize(
    ("name", "said"), [("Wrong", "prefix_tokens must be a whole number"), ("Flat", "grid must be")]
)
def test_a_declaration_that_is_none_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "net.py").write_text(OWN)
    chosen = load("models", f"{tmp_path / 'net.py'}:{name}")()
    with pytest.raises(SplitbenchError, match=said):
        chosen.layout("patches", chosen.build((3, 32, 32), 2), (16, 6), (3, 32, 32))


def test_a_table_network_of_the_users_is_told_the_fields(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OWN)
    chosen = load("models", f"{tmp_path / 'net.py'}:Rows")()
    assert chosen.modality == "tabular"
    network = network_for(chosen, 2)
    assert network.count == len(FIELDS)
    assert list(chosen.cuts) == ["columns", "wide", "flat"]
    assert laid(chosen, network, "wide", (4,)) == Layout("fields", (4, 3))
    assert laid(chosen, network, "flat", (4,)).kind == "vector"


@pytest.mark.parametrize(
    ("kind", "shape", "prefix", "grid"),
    [
        ("maps", (3, 4), 0, None),
        ("tokens", (3, 4, 4), 0, None),
        ("fields", (3,), 0, None),
        ("maps", (3, 4, 4), 1, None),
        ("fields", (9, 4), 0, (3, 3)),
        ("tokens", (9, 4), 10, None),
        ("tokens", (9, 4), -1, None),
        ("tokens", (9, 4), 1, (3, 3)),
    ],
)
def test_a_layout_that_contradicts_itself_is_refused(kind, shape, prefix, grid) -> None:
    with pytest.raises(SplitbenchError):
        Layout(kind, shape, prefix, grid)


def test_what_nobody_declares_goes_by_its_rank() -> None:
    assert by_rank((3, 4, 5)).kind == "maps"
    assert by_rank((4, 5)) == Layout("tokens", (4, 5))
    for shape in ((7,), (), (2, 3, 4, 5)):
        assert by_rank(shape).kind == "vector"
        assert by_rank(shape).channels == torch.Size(shape).numel()
    assert on_grid((11, 4), (3, 3), 1) == Layout("tokens", (11, 4)), "neither with nor without the prefix"


@pytest.mark.parametrize(
    ("places", "sample", "expected"),
    [
        (16, (3, 32, 32), (4, 4)),
        (8, (1, 32, 16), (4, 2)),
        (1, (1, 5, 5), (1, 1)),
        (17, (3, 32, 32), None),
        (9, (3, 32, 32), None),
        (0, (3, 32, 32), None),
        (16, (128,), None),
    ],
)
def test_tokens_tile_an_image_with_equal_squares_or_not_at_all(places, sample, expected) -> None:
    assert tiling(places, sample) == expected
