"""How ViT-Tiny begins."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import seeded
from splitbench.models.vit_tiny import ViTTiny


def embedding(**settings):
    with seeded(0, "vit"):
        return ViTTiny(patch=4, depth=1, width=24, **settings).build((3, 16, 16), 5)


def test_a_centred_embedding_is_the_other_one_of_standardised_pixels():
    x = torch.rand(2, 3, 16, 16)
    plain, centred = embedding().patch_embed, embedding(centred=True).patch_embed
    bias = plain.proj.bias[None, None]
    torch.testing.assert_close(centred(x), plain((x - 0.5) / 0.25) - bias, atol=1e-5, rtol=1e-5)


def test_positions_that_begin_as_waves_tell_places_apart_and_are_learned():
    waves, random = embedding(positions="sincos").pos_embed, embedding().pos_embed
    assert waves.shape == random.shape == (1, 17, 24)
    assert waves.requires_grad
    places = waves[0, 1:].detach()
    apart = torch.cdist(places, places) + 9 * torch.eye(16)
    assert float(apart.min()) > 0.5
    neighbour, far = apart[0, 1], apart[0, 15]
    assert neighbour < far, "places that are near are alike"
    assert float(random[0, 1:].detach().std()) < 0.1


def test_waves_need_a_width_that_has_sines_and_cosines_of_both_axes():
    with pytest.raises(SplitbenchError, match="multiple of 4, not 18"):
        ViTTiny(patch=4, depth=1, width=18, positions="sincos").build((3, 16, 16), 5)
