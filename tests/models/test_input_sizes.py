"""Every model takes images of every data set's size and channels, and texts of every length it has room for."""

from __future__ import annotations

import pytest
import torch
from _small_models import batch_for, model, network_for, shape_for

from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import seeded
from splitbench.core.registry import load, names

IMAGE = [n for n in names("models") if load("models", n).modality == "image"]
TABULAR = [n for n in names("models") if load("models", n).modality == "tabular"]
TEXT = [n for n in names("models") if load("models", n).modality == "text"]
# At 224 pixels, patches of 4 are 3,136 tokens.
COARSE = {"vit_tiny": {"patch": 14}, "pit_tiny": {"patch": 16, "stride": 8}, "t2t_vit": {"patch": 16}}


def test_there_are_models_of_every_kind() -> None:
    assert len(IMAGE) >= 7
    assert len(TEXT) >= 3
    assert TABULAR


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32), (3, 64), (3, 224)])
@pytest.mark.parametrize("name", IMAGE)
def test_images_of_any_data_set_fit(name: str, channels: int, size: int) -> None:
    chosen = load("models", name)(**(COARSE.get(name, {}) if size == 224 else {}))
    with torch.device("meta"):  # shapes need no numbers
        network = chosen.build((channels, size, size), 7)
        split = chosen.split(network, (next(iter(chosen.cuts)),))
        assert split.joined(torch.zeros(2, channels, size, size)).shape == (2, 7)


@pytest.mark.parametrize("name", [n for n in names("models") if n not in ("minilm", "roberta_base")])
def test_the_same_seed_builds_the_same_network_and_another_seed_another(name: str) -> None:
    chosen = model(name)
    states = []
    for seed in (3, 3, 4):
        with seeded(seed, "template"):
            states.append(network_for(chosen, 5).state_dict())
    first, again, other = states
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", [n for n in names("models") if n not in ("minilm", "roberta_base")])
def test_asking_for_cuts_and_cutting_draw_no_random_numbers(name: str) -> None:
    chosen = model(name)
    network = network_for(chosen, 5)
    before = torch.random.get_rng_state()
    chosen.split(network, (list(chosen.cuts)[-1],))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("name", IMAGE)
def test_an_image_model_says_that_it_does_not_take_texts(name: str) -> None:
    with pytest.raises(SplitbenchError, match=f"{name} takes images .* shape \\(8,\\)"):
        load("models", name)().build((8,), 2)


@pytest.mark.parametrize("name", TEXT)
def test_a_text_model_says_that_it_does_not_take_images(name: str) -> None:
    with pytest.raises(SplitbenchError, match=f"{name} takes texts .* shape \\(3, 32, 32\\)"):
        model(name).build((3, 32, 32), 2)


@pytest.mark.parametrize("name", TABULAR)
def test_a_model_of_tables_says_that_it_does_not_take_images(name: str) -> None:
    with pytest.raises(SplitbenchError, match=f"{name} takes tables .* shape \\(3, 32, 32\\)"):
        model(name).build((3, 32, 32), 2)


def test_patches_that_do_not_tile_the_image_are_named_with_those_that_do() -> None:
    with pytest.raises(SplitbenchError, match=r"patches of 5 do not tile 28 x 28 .* one of 1, 2, 4, 7, 14, 28"):
        load("models", "vit_tiny")(patch=5).build((1, 28, 28), 10)


def test_a_patch_larger_than_the_image_is_refused() -> None:
    with pytest.raises(SplitbenchError, match="no patch of 40 fits 32 x 32"):
        load("models", "pit_tiny")(patch=40).build((3, 32, 32), 10)


@pytest.mark.parametrize("name", ["vit_tiny", "roberta_small"])
def test_a_width_that_heads_do_not_divide_is_refused(name: str) -> None:
    chosen = model(name, width=20, heads=3)
    with pytest.raises(SplitbenchError, match="width=20 is not a multiple of heads=3"):
        chosen.build(shape_for(chosen), 2)


def test_the_papers_embedding_has_a_token_for_each_patch_and_the_class_token_first() -> None:
    chosen = load("models", "vit_tiny")(patch=8, depth=6)
    network = chosen.build((3, 32, 32), 10)
    client = chosen.split(network, ("embed",)).stages[0]
    x = batch_for(chosen).float()
    z = client(x)
    assert z.shape == (3, 1 + 16, 192)
    assert torch.equal(z[0, 0], z[1, 0]), "the class token does not depend on the image"
    assert not torch.equal(z[0, 1], z[1, 1])
