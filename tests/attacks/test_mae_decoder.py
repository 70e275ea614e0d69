"""The transformer decoder: learns any layout, needs true pairs, and is the paper's where it is set so."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks._token_decoder.network import Block, TokenDecoder
from splitbench.attacks._token_decoder.places import Places
from splitbench.attacks._token_decoder.training import How, rate
from splitbench.attacks.mae_decoder import MAEDecoder
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.core.view import Auxiliary, Query, View
from splitbench.data.celeba import CelebA
from splitbench.methods.shuffling.spectrum import spectral_patches
from splitbench.metrics.ssim import SSIM
from tests.attacks._tokens import PATCH, SIDE, Edge, edge, pictures, tokens_view

ROWS = SIDE // PATCH
TRUTH = pictures(32, 1)
PUBLIC = pictures(256, 2)
QUICK = MAEDecoder(steps=150, width=64, blocks=1, lr=3e-3)


def ssim(found: Tensor | None) -> float:
    assert found is not None
    return float(SSIM()(found, Truth.of(TRUTH)).mean())


def mean_image() -> float:
    return ssim(PUBLIC.mean(0).expand_as(TRUTH))


def sending(client: nn.Module, layout: Layout) -> View:
    with torch.no_grad():
        return replace(
            tokens_view(edge(), TRUTH, PUBLIC),
            targets=client(TRUTH)[None],
            layout=layout,
            query=Query(lambda x: client(x).detach()[None], len(PUBLIC)),  # type: ignore[arg-type]
        )


class Spectral(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return spectral_patches(x, ROWS, ROWS)


@pytest.mark.parametrize(
    ("client", "layout"),
    [
        (edge(), Layout("tokens", (17, 64), 1, (4, 4))),
        (edge(), Layout("tokens", (17, 64))),
        (nn.Conv2d(3, 8, 3, 2, 1), by_rank((8, 8, 8))),
        (nn.Sequential(nn.Flatten(), nn.Linear(768, 64)), by_rank((64,))),
        (Spectral(), Layout("tokens", (16, 96), 0, (4, 4))),
    ],
    ids=["tokens", "tokens without a grid", "maps", "vector", "spectrum"],
)
def test_it_learns_from_whatever_is_sent(client: nn.Module, layout: Layout) -> None:
    found = QUICK.run(sending(client.requires_grad_(False), layout), generator(0)).inputs
    # A vector has no places to share weights over, so 256 pairs teach little of it.
    assert ssim(found) > mean_image() + (0.02 if layout.kind == "vector" else 0.15)


def test_of_noise_in_place_of_what_is_sent_it_makes_no_more_than_the_mean() -> None:
    draws = generator(5)
    noise = torch.randn(32, 17, 64, generator=draws)
    view = replace(
        tokens_view(edge(), TRUTH, PUBLIC, noise),
        query=Query(lambda x: torch.randn(1, len(x), 17, 64, generator=draws), len(PUBLIC)),  # type: ignore[arg-type]
    )
    assert ssim(QUICK.run(view, generator(0)).inputs) < mean_image() + 0.05


def test_maps_become_tokens_and_lose_nothing() -> None:
    places = Places.of(Layout("maps", (5, 28, 27)))
    z = torch.randn(2, 5, 28, 27, generator=generator(1))
    tokens = places(z)
    assert tokens.shape == (2, places.tokens, places.width)
    assert places.tokens <= 128
    assert float(tokens.square().sum()) == pytest.approx(float(z.square().sum()), rel=1e-5)
    rows, columns = places.grid or (0, 0)
    back = nn.functional.pixel_shuffle(tokens.transpose(1, 2).reshape(2, -1, rows, columns), places.pool)
    assert torch.equal(back[..., :28, :27], z)


def test_each_token_writes_the_patch_at_its_place() -> None:
    decoder = TokenDecoder(Places.of(Layout("tokens", (5, 3), 1, (2, 2))), (1, 4, 4), 8, 0, 2, 2.0)
    z = torch.zeros(2, 5, 3)
    z[1, 2] = 1.0  # the class token, then the places row by row: the second place
    with torch.no_grad():
        changed = (decoder(z)[0] != decoder(z)[1])[0]
    assert bool(changed[:2, 2:].any())
    changed[:2, 2:] = False
    assert not bool(changed.any())


def test_a_block_is_torchs_own_layer() -> None:
    torch.manual_seed(0)
    block = Block(8, 2, 2.0)
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True).eval()
    attention = theirs.self_attn
    with torch.no_grad():
        assert attention.in_proj_weight is not None
        attention.in_proj_weight.copy_(block.qkv.weight)
        attention.in_proj_bias.copy_(block.qkv.bias)
    attention.out_proj.load_state_dict(block.out.state_dict())
    for mine, other in (
        (block.before_attention, theirs.norm1),
        (block.before_mlp, theirs.norm2),
        (block.mlp[0], theirs.linear1),
        (block.mlp[2], theirs.linear2),
    ):
        other.load_state_dict(mine.state_dict())
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(block(x), theirs(x))


def test_the_rate_rises_then_falls_as_a_cosine_or_stays() -> None:
    how = How(100, 1, 1.0, 0.0, 0.1, "cosine")
    assert rate(0, how) < rate(5, how) < rate(10, how) == pytest.approx(1)
    assert rate(55, how) == pytest.approx(0.5)
    assert rate(99, how) == pytest.approx((1 + math.cos(math.pi * 89 / 90)) / 2)
    assert rate(99, How(100, 1, 1.0, 0.0, 0.1, "constant")) == 1


def test_the_papers_setting_builds_and_takes_an_epoch() -> None:
    paper = MAEDecoder(epochs=1, batch=32, lr=1.5e-5, width=512, blocks=8, heads=16, ratio=4.0)
    found = paper.run(tokens_view(edge(), TRUTH, PUBLIC[:40]), generator(0)).inputs
    assert found is not None
    assert found.shape == TRUTH.shape
    assert 0 <= float(found.min()) <= float(found.max()) <= 1


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(SplitbenchError, match="width=10 is not a multiple of heads=4"):
        MAEDecoder(width=10).run(tokens_view(edge(), TRUTH, PUBLIC), generator(0))


def test_it_asks_once_for_all_that_it_may() -> None:
    asked = []

    def answer(x: Tensor) -> Tensor:
        asked.append(len(x))
        sent: Tensor = edge()(x)
        return sent.detach()[None]

    view = replace(tokens_view(edge(), TRUTH, PUBLIC), query=Query(answer, 100))  # type: ignore[arg-type]
    MAEDecoder(steps=1, width=8, blocks=0).run(view, generator(0))
    assert asked == [100], "the client makes the batches that a defense mixes"


@pytest.mark.slow
def test_undefended_faces_reach_the_bar_with_a_patch_of_16(shared_data: Path) -> None:
    faces = CelebA().load((shared_data,)).train.x[:1024].float() / 255
    truth, public = faces[:32], faces[32:]
    with torch.random.fork_rng():
        torch.manual_seed(11)
        client = Edge(patch=16, width=256, side=64).eval().requires_grad_(False)
    view = replace(tokens_view(edge(), TRUTH, PUBLIC), shape=(3, 64, 64), targets=client(truth)[None])
    view = replace(
        view,
        layout=Layout("tokens", (17, 256), 1, (4, 4)),
        auxiliary=Auxiliary(public, torch.zeros(len(public))),
        query=Query(lambda x: client(x)[None], len(public)),  # type: ignore[arg-type]
    )
    found = MAEDecoder().run(view, generator(0)).inputs
    assert found is not None
    assert float(SSIM()(found, Truth.of(truth)).mean()) > MAEDecoder.bars["ssim"]["celeba"]
