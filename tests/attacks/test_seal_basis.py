"""SEAL's basis is recovered from what it sends, and FORA goes on with what was recovered."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from splitbench.attacks._seal.recover_basis import one_for, prefixed, recover
from splitbench.attacks.fora import FORA
from splitbench.attacks.seal_basis import SealBasis, found
from splitbench.core.data import as_input
from splitbench.core.defense import Composed
from splitbench.core.errors import CellError
from splitbench.core.imagined import Imagined
from splitbench.core.layout import by_rank
from splitbench.core.randomness import generator
from splitbench.core.view import View
from splitbench.defenses.seal import SEAL
from splitbench.methods.seal.zigzag import rank
from splitbench.runner.prepare import prepare
from tests.attacks._scene import Identity, scene
from tests.runner._small import cells

BRIEF: dict[str, Any] = dict.fromkeys(FORA.phases, 3)
FUNCTIONS: list[dict[str, Any]] = [
    {"function": "cos"},
    {"function": "triangle"},
    {"function": "cos(x)+0.9cos(2x)"},
    {"key": 0},
    {"key": 1},
]


def smooth(count: int, height: int, width: int) -> Tensor:
    """Noise whose power falls with frequency as that of images does, in some maps faster than in others."""
    i, j = torch.arange(height)[:, None], torch.arange(width)
    slope = 2 * torch.rand(count, 1, 1, generator=generator(1))
    spectrum = torch.randn(count, height, width, generator=generator(0)) / (1 + i + j) ** slope
    down, across = SEAL(function="cos").bases(height, width)
    return down.T.float() @ spectrum @ across.float()


@functools.cache
def feature_maps() -> Tensor:
    """Of conv1 and bn1 on real images: (96, 64, 14, 14)."""
    [cell] = cells(model={"resnet18": {"width": 0.25}}, cut="stem")
    prepared = prepare(cell.run)
    with torch.no_grad():
        return prepared.models[0].stages[0].train()(as_input(prepared.data.train.x[:96]))


def agreement(maps: Tensor, seal: SEAL) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """The cosines of true rows and recovered ones, and how many are said to be recovered."""
    bases = recover(seal.perturbed(maps).flatten(0, -3))
    down, across = seal.bases(*maps.shape[-2:])
    return (bases.down * down).sum(1).abs(), (bases.across * across).sum(1).abs(), bases.found


@pytest.mark.parametrize("over", ["rows", "columns"])
@pytest.mark.parametrize("seal", FUNCTIONS, ids=lambda seal: str(*seal.values()))
def test_every_row_is_recovered_from_real_feature_maps(seal: dict[str, Any], over: Any) -> None:
    down, across, told = agreement(feature_maps(), SEAL(over=over, **seal))
    assert told == (14, 14)
    assert min(down.min(), across.min()) > 0.9999


def test_rows_that_were_hardly_ever_sent_are_made_up_and_not_counted() -> None:
    maps = smooth(400, 16, 16)
    down, across = SEAL(key=0).bases(16, 16)
    few = (
        down.T.float() @ ((rank(16, 16).view(16, 16) < 40) * (down.float() @ maps @ across.T.float())) @ across.float()
    )
    bases = recover(SEAL(key=0).perturbed(few))
    assert bases.found[0] == 8
    assert (bases.down * down).sum(1).abs()[:8].min() > 0.9999
    torch.testing.assert_close(bases.down @ bases.down.T, torch.eye(16, dtype=torch.float64))


@pytest.mark.parametrize("over", ["rows", "columns"])
@pytest.mark.parametrize("omega", [0.4, 0.9])
def test_what_is_said_to_be_recovered_is(over: Any, omega: float) -> None:
    down, _, (told, _) = agreement(feature_maps(), SEAL(omega, key=0, over=over))
    assert told >= 10
    assert int((down > 0.9999).sum()) >= told


@pytest.mark.parametrize("over", ["rows", "columns"])
@pytest.mark.parametrize("shape", [(16, 16), (8, 12), (12, 8)])
def test_of_maps_that_are_not_square_both_bases_are_recovered(shape: tuple[int, int], over: Any) -> None:
    down, across, told = agreement(smooth(4000, *shape), SEAL(key=0, over=over))
    assert told == shape
    assert min(down.min(), across.min()) > 0.9999


@pytest.mark.parametrize("mask", ["map", "image"])
def test_a_prefix_for_all_maps_of_an_image_tells_it_too(mask: Any) -> None:
    sent = SEAL(key=0, mask=mask).perturbed(feature_maps())
    bases = found(sent)
    assert bases is not None
    assert min(bases.found) >= 8
    assert one_for(sent, bases) == mask


def test_no_basis_is_found_where_there_is_no_seal() -> None:
    maps = feature_maps()
    noise = torch.randn(maps.shape, generator=generator(0))
    for sent in (
        maps,
        maps.relu(),
        torch.ones_like(maps),
        torch.zeros_like(maps),
        SEAL(key=0).perturbed(maps) + 0.01 * noise,
        noise[:, :, 0, 0],
        maps[:0],
    ):
        assert found(sent) is None
    assert recover(torch.zeros(5, 14, 14)).found == (0, 0)
    assert prefixed(torch.zeros(5, 14, 14), recover(torch.zeros(5, 14, 14))) == 0


def test_the_same_maps_give_the_same_basis_whatever_their_scale() -> None:
    sent = SEAL(key=0).perturbed(feature_maps())[:24].flatten(0, 1)
    one, two, large = recover(sent), recover(sent), recover(1024 * sent)
    assert torch.equal(one.down, two.down)
    torch.testing.assert_close(one.down, large.down)


def mounted(view: View, attack: FORA) -> Tensor:
    draws = generator(0, "attack")
    attack.begin(view, draws)
    guess = attack.run(view, draws).inputs
    assert guess is not None
    return guess


def sealed(view: View, **changes: Any) -> View:
    """A view of a client that sends SEAL's maps of many images, of a kind that tells its basis."""
    maps = smooth(2400, 16, 16).view(150, 16, 16, 16)
    layout = by_rank(maps.shape[1:])
    return replace(view, targets=SEAL(key=0).perturbed(maps)[None], layout=layout, **changes)


@pytest.mark.parametrize("rung", ["none", "family"])
def test_it_is_fora_with_the_secret(rung: Any) -> None:
    """What it imagines is what SEAL does, up to rounding; where the kind is known, with the omega that is known."""
    truth = SEAL(key=0)
    imagined: Imagined = Composed((truth,)).imagined(rung, torch.zeros(0))
    bases = found(truth.perturbed(smooth(4000, 16, 16).unsqueeze(1)))
    assert bases is not None
    attack = SealBasis(omega=0.7 if rung == "none" else 0.1)
    known = attack._sealed(imagined, bases, "map")
    x = torch.randn(3, 2, 16, 16, generator=generator(5), requires_grad=True)
    sent, wanted = known.simulate(x, None), truth.perturbed(x)
    torch.testing.assert_close(sent, wanted, rtol=1e-4, atol=1e-4)
    slopes = [torch.autograd.grad(made.square().sum(), x)[0] for made in (sent, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-3)


def test_what_it_recovers_changes_what_it_does_and_without_seal_it_is_fora() -> None:
    with scene(Identity) as made:
        plain = made.view
        assert torch.equal(mounted(plain, SealBasis(**BRIEF)), mounted(plain, FORA(**BRIEF)))
        hidden = sealed(plain)
        assert not torch.equal(mounted(hidden, SealBasis(**BRIEF)), mounted(hidden, FORA(**BRIEF)))
        assert torch.equal(mounted(hidden, SealBasis(**BRIEF)), mounted(hidden, SealBasis(**BRIEF)))


def test_who_holds_the_secret_uses_it() -> None:
    with scene(Identity) as made:
        held = SEAL(key=0).imagined("exact", made.view.merged)
        view = sealed(made.view, imagined=held, threat=replace(made.view.threat, knowledge="exact"))
        assert torch.equal(mounted(view, SealBasis(**BRIEF)), mounted(view, FORA(**BRIEF)))


def test_smashed_data_that_are_not_finite_are_refused() -> None:
    with scene(Identity) as made:
        view = replace(made.view, targets=made.view.targets * torch.nan)
        with pytest.raises(CellError, match="not finite"):
            mounted(view, SealBasis(**BRIEF))
