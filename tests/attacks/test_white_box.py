"""The white box: exact on a frozen edge whose weights are known, and no further than the order it assumes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks._jigsaw.board import Board
from splitbench.attacks.white_box import WhiteBox
from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.methods.shuffling.orders import within_images
from splitbench.methods.shuffling.patches import patched, unpatched
from splitbench.methods.shuffling.spectrum import spectral_patches
from splitbench.metrics.psnr import PSNR
from splitbench.metrics.ssim import SSIM
from tests.attacks._tokens import PATCH, PLACES, SIDE, edge, pictures, tokens_view

ROWS = SIDE // PATCH
TRUTH = pictures(12, 1)
PUBLIC = pictures(4, 2)


def recovered(attack: WhiteBox, client: nn.Module, sent: Tensor | None = None) -> Tensor:
    found = attack.run(tokens_view(client, TRUTH, PUBLIC, sent), generator(0)).inputs
    assert found is not None
    return found


def psnr(found: Tensor, truth: Tensor) -> float:
    return float(PSNR()(found, Truth.of(truth)).mean())


def shuffled(seed: int = 0) -> Tensor:
    """The pictures with their patches in another order."""
    order = within_images(len(TRUTH), PLACES, generator(seed)) - (torch.arange(len(TRUTH)) * PLACES)[:, None]
    patches = patched(TRUTH, ROWS, ROWS)
    return unpatched(patches.gather(1, order[..., None].expand_as(patches)), TRUTH.shape[1:], ROWS, ROWS)


def test_known_weights_of_a_frozen_edge_give_the_pixels_back() -> None:
    assert psnr(recovered(WhiteBox(steps=200, tv=0.003), edge()), TRUTH) > 35


def test_a_batch_of_images_is_as_good_as_one_after_another() -> None:
    together, apart = (recovered(WhiteBox(steps=20, batch=batch), edge()) for batch in (0, 5))
    torch.testing.assert_close(together, apart, atol=1e-3, rtol=0)


def test_without_positions_it_recovers_the_patches_in_the_order_in_which_they_were_sent() -> None:
    client, moved = edge(positions=False), shuffled()
    found = recovered(WhiteBox(steps=200), client, client(moved))
    assert psnr(found, moved) > 28
    assert psnr(found, TRUTH) < 18


def test_a_jigsaw_puts_tokens_that_were_shuffled_into_their_order() -> None:
    client = edge(positions=False)
    sent = client(shuffled())
    scores = [
        float(SSIM()(recovered(WhiteBox(steps=150, order=order), client, sent), Truth.of(TRUTH)).mean())
        for order in ("as_sent", "jigsaw")
    ]
    assert scores[1] > scores[0] + 0.4


def test_total_variation_before_a_jigsaw_stays_inside_of_patches() -> None:
    attack = WhiteBox(steps=1, order="jigsaw", tv=1.0)
    board = Board.of_view(tokens_view(edge(), TRUTH, PUBLIC), "white_box")
    blocks = TRUTH[..., :1, :1].expand_as(TRUTH).clone()
    blocks[..., :, 8:] += 0.5
    assert float(attack._variation(blocks, board).max()) == pytest.approx(0)
    assert float(attack._variation(blocks, None).min()) > 0


def test_a_client_that_sends_spectral_patches_is_inverted_through_its_transform() -> None:
    class Spectral(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((x.new_zeros(len(x), 1, 6 * PATCH**2), spectral_patches(x, ROWS, ROWS)), 1)

    assert psnr(recovered(WhiteBox(steps=150, tv=0.0), Spectral()), TRUTH) > 40


def test_the_papers_settings_take_a_step_of_their_size() -> None:
    found = recovered(WhiteBox(steps=1, lr=1e-3, schedule="constant", batch=16, tv=0.0), edge())
    moved = (found - 0.5).abs()
    assert float(moved.max()) == pytest.approx(1e-3, rel=1e-3)
    assert float(moved.median()) == pytest.approx(1e-3, rel=1e-2)


def test_it_needs_the_weights_and_says_so() -> None:
    assert "needs weights=true" in (WhiteBox().lacks(ThreatModel(architecture=True)) or "")
    assert WhiteBox().lacks(ThreatModel(weights=True)) is None


def test_a_jigsaw_of_what_lies_on_no_grid_is_refused() -> None:
    client = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 32))
    with torch.no_grad():
        view = replace(tokens_view(edge(), TRUTH, PUBLIC), targets=client(TRUTH)[None], layout=None)
    with pytest.raises(SplitbenchError, match="white_box with order=jigsaw needs tokens"):
        WhiteBox(steps=1, order="jigsaw").run(view, generator(0))
