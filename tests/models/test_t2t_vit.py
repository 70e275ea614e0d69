"""Tokens-to-Token ViT: the published sizes, its tokens, its attention, its weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.model import Model
from splitbench.core.registry import load
from splitbench.core.split import output_shape
from splitbench.models._tokens_to_token.network import Attention, sinusoids
from splitbench.models._tokens_to_token.token_layers import TokenPerformer, TokenTransformer

SMALL: dict[str, Any] = {"depth": 2, "width": 12, "token_width": 4}


def t2t(**settings: Any) -> Model:
    made = load("models", "t2t_vit")(**settings)
    assert isinstance(made, Model)
    return made


def shaken(network: nn.Module) -> nn.Module:
    """Away from the small numbers and zeros it begins with, so that every part matters."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return network.double().eval()


def by_hand(depth: int, width: int, ratio: int, performer: bool) -> int:
    """Of the paper's description: what is learned at 224 pixels with 1000 classes."""
    wide = (3 * 7 * 7, 64 * 3 * 3)
    attention = [3 * 64 * w + (3 * 64 if performer else 0) + 64 * 65 for w in wide]
    tokens = sum(attention) + sum(2 * w for w in wide) + 2 * (2 * 64 + 2 * 64 * 65) + (wide[1] + 1) * width
    block = 3 * width**2 + width * (width + 1) + 2 * ratio * width**2 + (ratio + 1) * width + 4 * width
    return tokens + width + depth * block + 2 * width + (width + 1) * 1000


# Depth, width, MLP ratio, kind of token layer, and the millions of the authors' tables.
PUBLISHED = [
    (7, 256, 2, "performer", 4.3),
    (10, 256, 2, "performer", 5.9),
    (14, 384, 3, "performer", 21.5),
    (14, 384, 3, "transformer", 21.5),
    (19, 448, 3, "performer", 39.2),
    (24, 512, 3, "performer", 64.1),
    (24, 512, 3, "transformer", 64.1),
]


@pytest.mark.parametrize(("depth", "width", "ratio", "layers", "millions"), PUBLISHED)
def test_it_has_the_published_number_of_parameters(depth, width, ratio, layers, millions) -> None:
    with torch.device("meta"):
        network = t2t(depth=depth, patch=16, token_layers=layers).build((3, 224, 224), 1000)
    learned = sum(p.numel() for p in network.parameters())
    assert learned == by_hand(depth, width, ratio, layers == "performer")
    # The authors count what is fixed too: positions, and the performers' directions.
    fixed = sum(b.numel() for b in network.buffers())
    assert fixed == (14**2 + 1) * width + (2 * 32 * 64 if layers == "performer" else 0)
    assert round((learned + fixed) / 1e6, 1) == millions


def test_depth_24_has_exactly_the_parameters_of_the_published_checkpoint() -> None:
    with torch.device("meta"):
        network = t2t(depth=24, patch=16).build((3, 224, 224), 1000)
    assert sum(p.numel() for p in network.state_dict().values()) == 64_105_934
    assert {block.attn.heads for block in network.blocks} == {8}


@pytest.mark.slow
def test_depth_24_takes_a_step_that_lowers_the_loss() -> None:
    torch.manual_seed(0)
    network = t2t(depth=24, patch=16, dropout=0).build((3, 224, 224), 10)
    x, y = torch.rand(2, 3, 224, 224), torch.tensor([1, 7])
    before = F.cross_entropy(network(x), y)
    before.backward()
    torch.optim.SGD(network.parameters(), lr=1e-3).step()
    assert F.cross_entropy(network(x), y) < before


@pytest.mark.parametrize("layers", ["performer", "transformer"])
@pytest.mark.parametrize(("patch", "shape"), [(16, (3, 48, 32)), (8, (3, 32, 64)), (4, (1, 28, 20))])
def test_the_grid_is_the_image_divided_by_the_patch(patch: int, shape: tuple[int, ...], layers: str) -> None:
    chosen = t2t(**SMALL, patch=patch, token_layers=layers)
    network = chosen.build(shape, 5)
    rows, columns = shape[1] // patch, shape[2] // patch
    tokens = network.tokens_to_token(torch.rand(2, *shape))
    assert tokens.shape == (2, rows * columns, 12)
    assert network.tokens_to_token.grid_size == (rows, columns)
    for cut in ("embed", "block1", "norm"):
        client = chosen.split(network, (cut,)).stages[0]
        smashed = output_shape(client, shape, torch.float32)
        expected = Layout("tokens", (1 + rows * columns, 12), prefix=1, grid=(rows, columns))
        assert chosen.layout(cut, network, smashed, shape) == expected


@pytest.mark.parametrize(("patch", "reach"), [(16, 31), (8, 31), (4, 23)])
def test_tokens_overlap_and_lie_where_their_windows_do(patch: int, reach: int) -> None:
    """The oracle: which pixels a token's windows hold, with token layers that look at one token each."""
    side = 8 * patch
    module = t2t(**SMALL, patch=patch).build((1, side, side), 5).tokens_to_token.double()
    module.attention1, module.attention2 = nn.LazyLinear(4).double(), nn.LazyLinear(4).double()
    x = torch.rand(1, 1, side, side, dtype=torch.float64, requires_grad=True)
    tokens = module(x)
    row, column = 3, 4
    (slope,) = torch.autograd.grad(tokens[0, row * 8 + column].abs().sum(), x)
    seen = slope[0, 0] != 0
    assert seen.any(1).sum() == seen.any(0).sum() == reach > patch
    middle = [float(seen.any(axis).nonzero().double().mean()) for axis in (1, 0)]
    # Windows of odd sides over steps of even ones: the middle is within half a patch of the patch's own.
    for place, centre in zip((row, column), middle, strict=True):
        assert abs(centre - (patch * (place + 0.5) - 0.5)) <= patch / 2


def test_a_soft_split_holds_the_pixels_of_its_windows() -> None:
    module = t2t(**SMALL).build((2, 16, 12), 5).tokens_to_token
    x = torch.rand(1, 2, 16, 12)
    windows = module.soft_split0(x).transpose(1, 2)  # of 7 pixels, 2 beyond the border, every 4 pixels
    padded = F.pad(x, (2, 2, 2, 2))
    assert windows.shape == (1, 4 * 3, 2 * 49)
    assert torch.equal(windows[0, 1 * 3 + 2], padded[0, :, 4:11, 8:15].flatten())


def test_attention_is_what_the_formula_says() -> None:
    torch.manual_seed(0)
    layer = Attention(8, 2).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    q, k, v = (layer.qkv.weight[8 * i : 8 * i + 8] @ x[0].T for i in range(3))  # (D, L) each
    mixed = torch.zeros(5, 8, dtype=torch.float64)
    for head in (slice(0, 4), slice(4, 8)):
        weights = (q[head].T @ k[head] / math.sqrt(8)).softmax(1)
        mixed[:, head] = weights @ v[head].T
    torch.testing.assert_close(layer(x)[0], layer.proj(mixed))


def token_layer(layer: nn.Module, mixed: Tensor, v: Tensor) -> Tensor:
    x = v + layer.proj(mixed)
    return x + layer.mlp(layer.norm2(x))


def test_a_token_transformer_adds_its_values_to_what_attention_makes() -> None:
    torch.manual_seed(0)
    layer = TokenTransformer(9, 4).double()
    x = torch.randn(1, 5, 9, dtype=torch.float64)
    q, k, v = layer.qkv(layer.norm1(x[0])).split(4, 1)
    weights = torch.zeros(5, 5, dtype=torch.float64)
    for i in range(5):
        scores = torch.stack([(q[i] @ k[j] / 3).exp() for j in range(5)])
        weights[i] = scores / scores.sum()
    torch.testing.assert_close(layer(x)[0], token_layer(layer, weights @ v, v))


def test_a_performer_approaches_softmax_attention_with_more_directions() -> None:
    torch.manual_seed(0)
    layer = TokenPerformer(9, 4, dropout=0).double()
    layer.register_buffer("w", torch.randn(200_000, 4, dtype=torch.float64))
    x = torch.randn(1, 5, 9, dtype=torch.float64)
    k, q, v = layer.kqv(layer.norm1(x[0])).split(4, 1)
    exact = token_layer(layer, (q @ k.T).softmax(1) @ v, v)
    torch.testing.assert_close(layer(x)[0], exact, atol=0.02, rtol=0)
    assert (q @ k.T).softmax(1).std() > 0.01, "attention is not even, or the mean of the values would do"


def test_positions_are_sines_and_cosines() -> None:
    table = sinusoids(7, 6)
    assert table.shape == (1, 7, 6)
    for place in range(7):
        for column in range(6):
            angle = place / 10_000 ** (2 * (column // 2) / 6)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert float(table[0, place, column]) == pytest.approx(expected, abs=1e-6)


def test_positions_are_fixed_and_stand_after_the_class_token_is_put_in_front() -> None:
    network = t2t(**SMALL, patch=8).build((3, 32, 32), 5)
    assert network.pos_embed.shape == (1, 1 + 16, 12)
    assert not any("pos_embed" in name for name, _ in network.named_parameters())
    x = torch.rand(2, 3, 32, 32)
    network.eval()
    tokens = network.tokens_to_token(x)
    z = t2t(**SMALL, patch=8).split(network, ("embed",)).stages[0].eval()(x)
    torch.testing.assert_close(z[:, 1:] - network.pos_embed[:, 1:], tokens)
    torch.testing.assert_close(z[:, 0], (network.cls_token + network.pos_embed)[:, 0].expand(2, -1))


@torch.no_grad()
def test_without_positions_the_class_token_does_not_depend_on_the_order_of_tokens() -> None:
    torch.manual_seed(0)
    network = shaken(t2t(**SMALL, patch=8).build((3, 64, 64), 5))
    tokens = network.tokens_to_token(torch.rand(2, 3, 64, 64, dtype=torch.float64))
    moved = tokens[:, torch.randperm(64)]

    def classes(tokens: Tensor) -> Tensor:
        z = torch.cat([network.cls_token.expand(2, -1, -1), tokens], 1) + network.pos_embed
        return network.head(network.pool(network.norm(network.blocks(network.norm_pre(z)))))

    assert (classes(moved) - classes(tokens)).abs().max() > 1e-3
    network.pos_embed.zero_()
    torch.testing.assert_close(classes(moved), classes(tokens), rtol=1e-5, atol=1e-5)


def test_weights_in_the_published_names_are_read_but_for_a_head_of_other_classes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for layers in ("performer", "transformer"):
        chosen = t2t(**SMALL, patch=16, token_layers=layers)
        trained = shaken(chosen.build((3, 64, 64), 7)).float()
        published = {}
        for name, tensor in trained.state_dict().items():
            if ".attention" in name:
                if layers == "performer":
                    name = name.replace("mlp.fc1", "mlp.0").replace("mlp.fc2", "mlp.2")
                elif ".qkv" in name or ".proj" in name:
                    name = name.replace(".qkv", ".attn.qkv").replace(".proj", ".attn.proj")
            published[f"module.{name}"] = tensor
        save_file(published, tmp_path / "model.safetensors")
        same = t2t(**SMALL, patch=16, token_layers=layers, weights=str(tmp_path)).build((3, 64, 64), 7).eval()
        x = torch.rand(1, 3, 64, 64)
        torch.testing.assert_close(same(x), trained(x))
        # Smaller steps and images, and another head: whatever is learned of tokens and blocks still fits.
        tuned = t2t(**SMALL, patch=4, token_layers=layers, weights=str(tmp_path)).build((3, 32, 32), 3)
        assert torch.equal(tuned.tokens_to_token.project.weight, trained.tokens_to_token.project.weight)
        torch.testing.assert_close(tuned.pos_embed, sinusoids(65, 12))
        assert tuned.head.weight.shape == (3, 12)
        with pytest.raises(SplitbenchError, match=r"do not fit the network.*147 there and 49 here"):
            t2t(**SMALL, patch=4, token_layers=layers, weights=str(tmp_path)).build((1, 32, 32), 3)


def test_what_cannot_be_built_is_said_in_a_line() -> None:
    with pytest.raises(SplitbenchError, match=r"patches of 16 do not tile 28 x 28 pixels; set patch to 4$"):
        t2t(patch=16).build((1, 28, 28), 10)
    with pytest.raises(SplitbenchError, match="choose images of another size"):
        t2t(patch=16).build((1, 30, 28), 10)
    with pytest.raises(SplitbenchError, match="width=200 is not a multiple of its 3 heads"):
        t2t(width=200).build((1, 28, 28), 10)


def test_only_vision_transformers_name_where_tokens_begin() -> None:
    x = torch.rand(2, 3, 32, 32)
    for name, settings in (("vit_tiny", {"depth": 1, "patch": 8}), ("t2t_vit", SMALL), ("deit_tiny_patch16_224", {})):
        chosen = load("models", name)(**settings)
        assert isinstance(chosen, Model)
        assert chosen.tokens == "norm_pre"
        network = chosen.build((3, 32, 32), 5).eval()
        client, server = chosen.split(network, (chosen.tokens,)).stages
        z = client(x)
        assert z.shape[1:] == (network.pos_embed.shape[1], network.pos_embed.shape[2])
        torch.testing.assert_close(server(z), network(x))
    assert load("models", "vit_small_patch14_reg4_dinov2").tokens == "norm_pre"
    for name in ("convnext_atto", "vit_relpos_small_patch16_224", "resnet18"):
        assert load("models", name).tokens == ""
