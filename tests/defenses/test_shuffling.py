"""Patch, batch and spectral shuffling: what is sent is what the algorithms say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from splitbench.core.defense import Composed, Context
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import by_rank
from splitbench.core.member import Batch
from splitbench.core.message import About
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import output_shape
from splitbench.defenses.batch_shuffle import BatchShuffle
from splitbench.defenses.half_spectral_shuffle import HalfSpectralShuffle
from splitbench.defenses.patch_shuffle import PatchShuffle
from splitbench.defenses.spectral_shuffle import SpectralShuffle
from splitbench.methods.shuffling.orders import across_batch, within_images
from splitbench.methods.shuffling.patches import patched, unpatched
from splitbench.methods.shuffling.spectrum import from_spectral_patches, spectral_patches
from splitbench.models.lenet5 import LeNet5
from splitbench.models.vit_tiny import ViTTiny

SHAPE, CLASSES = (3, 16, 16), 5
MODEL = ViTTiny(patch=4, depth=2, width=48, heads=3)
HALVES = (HalfSpectralShuffle(), HalfSpectralShuffle(reading="R2"))
SHUFFLES = (PatchShuffle(), BatchShuffle(k=0.4), SpectralShuffle(), SpectralShuffle(reading="R2"), *HALVES)


def network(cut="block1", model=MODEL):
    with seeded(0, "test"):
        whole = model.build(SHAPE, CLASSES)
        return whole, model.split(whole, (cut,))


def defended(defense, cut="block1", model=MODEL):
    """The defense, bound, and the network as it wants it."""
    whole, split = network(cut, model)
    smashed = output_shape(split.stages[0], SHAPE, torch.float32)
    layout = model.layout(cut, whole, smashed, SHAPE)
    bound = defense.bind(Context(layout, CLASSES, tokens=model.tokens, sample=SHAPE))
    return bound, bound.prepare(split)


def batch_of(count, learning=True):
    draws = generator(1, "images")
    return Batch(
        torch.rand(count, *SHAPE, generator=draws),
        torch.zeros(count, dtype=torch.long),
        About.plain(0, torch.arange(count) + 7),
        learning,
    )


def sent(defense, count=6, seed=3, cut="block1"):
    bound, model = defended(defense, cut)
    model.eval()
    batch = bound.inputs(batch_of(count), generator(seed))
    return model.stages[0](*batch.given), batch, model


# -- orders ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
@settings(max_examples=50, deadline=None)
def test_an_order_of_images_loses_and_doubles_no_token_and_leaves_each_in_its_image(count, tokens, seed):
    order = within_images(count, tokens, generator(seed))
    assert torch.equal(order.sort(1).values, torch.arange(count * tokens).view(count, tokens))


@given(st.integers(2, 6), st.integers(2, 12), st.data())
@settings(max_examples=80, deadline=None)
def test_an_order_of_a_batch_loses_and_doubles_no_token(count, tokens, data):
    kept = data.draw(st.integers(0, tokens))
    order = across_batch(count, tokens, kept, generator(data.draw(st.integers(0, 2**32))), data.draw(st.booleans()))
    assert torch.equal(order.flatten().sort().values, torch.arange(count * tokens))
    own = (order // tokens == torch.arange(count)[:, None]).sum(1)
    assert (own >= kept).all(), "what stays, stays; some of the others may come home again"


def test_exactly_the_tokens_that_are_kept_are_never_dealt_out():
    """Without the last shuffle they stand in front, so that they can be told from those that came home."""
    count, tokens, kept = 8, 25, math.floor(0.4 * 25)
    order = across_batch(count, tokens, kept, generator(0), last_shuffle=False)
    assert (order[:, :kept] // tokens == torch.arange(count)[:, None]).all()
    homes = torch.stack([(across_batch(8, 25, 10, generator(s), False)[:, 10:] // 25).flatten() for s in range(50)])
    share = (homes.view(50, 8, 15) == torch.arange(8)[:, None]).double().mean()
    assert abs(float(share) - 1 / 8) < 0.01, "of what is dealt out, one in eight comes home by chance"


@pytest.mark.parametrize("last", [True, False])
def test_every_permutation_of_an_image_is_as_likely_as_any_other(last):
    draws = 6000
    orders = within_images(draws, 4, generator(5)) % 4
    if not last:
        orders = across_batch(draws, 4, 4, generator(6), False) % 4
    seen = torch.unique(orders, dim=0, return_counts=True)[1]
    assert len(seen) == 24
    assert stats.chisquare(seen.numpy()).pvalue > 1e-3


def test_what_is_dealt_out_is_dealt_uniformly_over_the_batch():
    """Where a token of the pool ends is uniform over all places of the pool: chi-square over images and places."""
    where = torch.zeros(4, 4)
    for seed in range(1500):
        images = across_batch(4, 4, 1, generator(seed), False)[:, 1:] // 4
        for row, image in itertools.product(range(4), range(4)):
            where[row, image] += (images[row] == image).sum()
    # Dealing without replacement varies less than independent draws would: the statistic is rather too small.
    assert stats.chisquare(where.flatten().numpy()).pvalue > 1e-3


# -- patches and spectra --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 4), (4, 4), (16, 16)])
def test_patches_are_the_image_cut_up(rows, columns):
    x = torch.rand(2, 3, 16, 16)
    tokens = patched(x, rows, columns)
    p, q = 16 // rows, 16 // columns
    for row, column in itertools.product(range(rows), range(columns)):
        tile = x[:, :, row * p : (row + 1) * p, column * q : (column + 1) * q]
        assert torch.equal(tokens[:, row * columns + column], tile.flatten(1))
    assert torch.equal(unpatched(tokens, (3, 16, 16), rows, columns), x)


def test_an_image_that_is_not_a_whole_number_of_patches_is_refused():
    with pytest.raises(SplitbenchError, match="cannot be cut into 3 x 4"):
        patched(torch.rand(1, 3, 16, 16), 3, 4)


def test_a_spectrum_leads_back_to_its_image_and_keeps_its_energy():
    x = torch.rand(5, 3, 16, 16, generator=generator(2), dtype=torch.float64)
    tokens = spectral_patches(x, 4, 4)
    assert tokens.shape == (5, 16, 2 * 3 * 16)
    torch.testing.assert_close(from_spectral_patches(tokens, (3, 16, 16), 4, 4), x)
    torch.testing.assert_close(tokens.square().sum((1, 2)), x.square().sum((1, 2, 3)))
    # The zero frequency is in the middle, the first value of the patch right below and beside it.
    torch.testing.assert_close(tokens[:, 10, 0], x[:, 0].sum((1, 2)) / 16)


# -- the defended client ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["embed", "block1", "block2"])
def test_patch_shuffling_sends_the_tokens_of_a_client_without_positions_in_another_order(cut):
    z, batch, model = sent(PatchShuffle(), cut=cut)
    straight = model.stages[0](batch.x)
    places = batch.order % 16 + 1
    for sample in range(len(z)):
        torch.testing.assert_close(z[sample, 1:], straight[sample, places[sample]], atol=1e-5, rtol=1e-5)


def test_the_class_token_and_the_answer_do_not_depend_on_the_order_without_positions():
    z, batch, model = sent(PatchShuffle())
    straight = model.stages[0](batch.x)
    torch.testing.assert_close(z[:, 0], straight[:, 0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.stages[1](z), model.stages[1](straight), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(z[:, 1:], straight[:, 1:], atol=1e-3)


def test_with_positions_the_class_token_depends_on_the_order():
    """What makes the test above one that can fail."""
    _, split = network()
    stage = split.stages[0].eval()
    x = batch_of(4).x
    turned = unpatched(patched(x, 4, 4).flip(1), SHAPE, 4, 4)
    assert not torch.allclose(stage(x)[:, 0], stage(turned)[:, 0], atol=1e-4)


@pytest.mark.parametrize("defense", SHUFFLES, ids=str)
def test_the_client_is_frozen_and_waits_for_no_gradient(defense):
    z, _, model = sent(defense)
    assert not z.requires_grad
    assert not any(p.requires_grad for p in model.stages[0].parameters())
    assert all(p.requires_grad for p in model.stages[1].parameters())


def test_batch_shuffling_passes_mixed_rows_through_the_frozen_block():
    z, batch, model = sent(BatchShuffle(k=0.4))
    tokens = model.stages[0].front(batch.x)
    flat = tokens[:, 1:].flatten(0, 1)
    rows = [torch.cat((tokens[i, :1], flat[batch.order[i]])) for i in range(len(z))]
    torch.testing.assert_close(z, model.stages[0].back(torch.stack(rows)))


def test_a_mixed_row_says_what_it_is_made_of_and_stays_its_own_images():
    _, batch, _ = sent(BatchShuffle(k=0.4), count=6)
    about = batch.about
    assert about.lead
    assert not about.mixes
    assert about.samples[:, 0].tolist() == [7, 8, 9, 10, 11, 12]
    images = batch.order // 16
    for row in range(6):
        for sample, share in zip(about.samples[row].tolist(), about.shares[row].tolist(), strict=True):
            assert share == pytest.approx(float((images[row] == sample - 7).double().mean()))
    assert (about.shares[:, 0] >= math.floor(0.4 * 16) / 16).all()


def test_labels_are_not_mixed():
    bound, _ = defended(BatchShuffle())
    batch = replace(batch_of(4), y=torch.tensor([3, 1, 4, 1]))
    assert bound.inputs(batch, generator(0)).y.tolist() == [3, 1, 4, 1]


def test_test_images_may_be_left_in_their_rows():
    bound, _ = defended(BatchShuffle(inference="alone"))
    order = bound.inputs(batch_of(4, learning=False), generator(0)).order
    assert (order // 16 == torch.arange(4)[:, None]).all()
    order = bound.inputs(batch_of(4), generator(0)).order
    assert (order // 16 != torch.arange(4)[:, None]).any()


def test_spectral_shuffling_sends_the_spectrum_of_the_image():
    z, batch, _ = sent(SpectralShuffle())
    back = torch.empty_like(z)
    back.view(-1, z.shape[-1])[batch.order.flatten()] = z.flatten(0, 1)
    torch.testing.assert_close(from_spectral_patches(back, SHAPE, 4, 4), batch.x, atol=1e-5, rtol=1e-5)


def test_the_second_reading_sends_the_spectrum_of_the_folded_embedding():
    z, batch, model = sent(SpectralShuffle(reading="R2"))
    back = torch.empty_like(z)
    back.view(-1, z.shape[-1])[batch.order.flatten()] = z.flatten(0, 1)
    folded = from_spectral_patches(back, SHAPE, 4, 4)
    tokens = model.stages[0].front[0](batch.x)[:, 1:]
    torch.testing.assert_close(patched(folded, 4, 4), tokens, atol=1e-5, rtol=1e-5)


def in_place(z, order):
    back = torch.empty_like(z)
    back.view(-1, z.shape[-1])[order.flatten()] = z.flatten(0, 1)
    return back


def mirrored(rows):
    """Rows of frequencies, each made the conjugate of the opposite one; columns are centred."""
    return rows.flip(-1).roll(1, -1).conj()


def test_the_lower_half_of_a_spectrum_says_all_but_its_highest_row():
    z, batch, _ = sent(HalfSpectralShuffle())
    assert z.shape == (6, 8, 2 * 3 * 16)
    real, imaginary = unpatched(in_place(z, batch.order), (6, 8, 16), 2, 4).double().chunk(2, 1)
    below = torch.complex(real, imaginary)  # rows 0 to 7
    whole = torch.cat((torch.zeros_like(below[:, :, :1]), mirrored(below[:, :, 1:].flip(2)), below), 2)
    image = torch.fft.ifft2(torch.fft.ifftshift(whole, dim=(-2, -1)), norm="ortho").real
    # The row of frequency 8 alternates from pixel to pixel.
    signs = torch.tensor([1.0, -1.0]).repeat(8)[:, None]
    lost = signs * (batch.x * signs).mean(2, keepdim=True)
    torch.testing.assert_close(image.float(), batch.x - lost, atol=1e-5, rtol=1e-5)
    assert lost.abs().max() > 0.01


def test_half_a_spectrum_of_the_folded_embedding_is_half_of_what_the_second_reading_sends():
    z, batch, model = sent(HalfSpectralShuffle(reading="R2"))
    tokens = model.stages[0].front[0](batch.x)[:, 1:]
    torch.testing.assert_close(in_place(z, batch.order), spectral_patches(unpatched(tokens, SHAPE, 4, 4), 4, 4)[:, 8:])


def test_of_a_whole_spectrum_each_patch_mirrors_another_and_of_half_of_one_none():
    def nearest(defense):
        z, _, _ = sent(defense)
        real, imaginary = z.view(6, -1, 6, 4, 4).double().chunk(2, 2)
        inner = torch.complex(real, imaginary)[..., 1:, 1:]
        a, b = (torch.view_as_real(one.resolve_conj()).flatten(2) for one in (inner, inner.flip(-2, -1).conj()))
        return torch.cdist(a, b).amin(2)

    assert nearest(SpectralShuffle()).max() < 1e-5
    assert nearest(HalfSpectralShuffle()).min() > 0.5


@pytest.mark.parametrize("positions", [False, True])
def test_the_server_learns_of_half_as_many_tokens(positions):
    z, _, model = sent(HalfSpectralShuffle(positions=positions))
    assert model.stages[1](z).shape == (6, CLASSES)
    shapes = [tuple(p.shape) for name, p in model.stages[1].named_parameters() if name.endswith("0.positions")]
    assert shapes == ([(1, 8, 48)] if positions else [])


def test_no_block_is_left_at_the_edge_and_none_is_lost():
    _, model = defended(SpectralShuffle(), cut="block1")
    assert not list(model.stages[0].parameters())
    names = [name for name, _ in model.stages[1].named_parameters()]
    assert any("blocks.0" in name for name in names)
    assert any("blocks.1" in name for name in names)
    whole, _ = network()
    block = whole.blocks[0].attn.qkv.weight
    assert any(torch.equal(p, block) for p in model.stages[1].parameters())


@pytest.mark.parametrize("defense", SHUFFLES, ids=str)
def test_what_leaves_lies_as_the_defense_says(defense):
    z, _, _ = sent(defense)
    bound, _ = defended(defense)
    layout = bound.sends(bound.context.layout)
    assert tuple(z.shape[1:]) == layout.shape
    assert layout.grid == ((2, 4) if defense in HALVES else (4, 4))
    assert Composed((bound,)).sends(bound.context.layout) == layout


@pytest.mark.parametrize("defense", SHUFFLES, ids=str)
def test_every_round_and_every_client_draws_permutations_of_its_own(defense):
    first, second = (sent(defense, seed=seed)[1].order for seed in (1, 2))
    assert not torch.equal(first, second)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("defense", SHUFFLES, ids=str)
def test_a_network_without_tokens_is_refused_and_those_that_have_them_are_named(defense):
    with seeded(0, "test"):
        model = LeNet5()
        split = model.split(model.build((1, 28, 28), 3), ("conv1",))
    bound = defense.bind(Context(by_rank((6, 28, 28)), 3, sample=(1, 28, 28)))
    with pytest.raises(SplitbenchError, match=r"takes? a model that has tokens \(vit_tiny, t2t_vit"):
        bound.prepare(split)


def test_the_second_reading_needs_tokens_of_the_right_width():
    with pytest.raises(SplitbenchError, match="need a width of 48, the model has 60"):
        defended(SpectralShuffle(reading="R2"), model=ViTTiny(patch=4, depth=2, width=60, heads=3))


def test_half_a_spectrum_needs_an_even_number_of_rows_of_patches():
    with pytest.raises(SplitbenchError, match=r"half_spectral_shuffle .* needs an even number of rows; here are 1"):
        defended(HalfSpectralShuffle(), model=ViTTiny(patch=16, depth=2, width=48, heads=3))


def test_nothing_is_done_where_nothing_crosses():
    for defense in (PatchShuffle(), BatchShuffle(), SpectralShuffle(), HalfSpectralShuffle()):
        batch = batch_of(3)
        assert defense.bind(Context()).inputs(batch, generator(0)) is batch


def test_an_adversary_that_knows_of_the_shuffle_shuffles_its_own_tokens():
    bound, _ = defended(PatchShuffle())
    z = torch.rand(3, 17, 48)
    imagined = bound.imagined("family", z)
    shuffled = imagined.simulate(z, generator(0))
    assert torch.equal(shuffled[:, :1], z[:, :1])
    assert torch.equal(shuffled[:, 1:].sort(1).values, z[:, 1:].sort(1).values)
    assert not torch.equal(shuffled, z)
    assert torch.equal(imagined.merge(torch.stack((z, shuffled))), z)
    assert not bound.imagined("none", z).disguises
