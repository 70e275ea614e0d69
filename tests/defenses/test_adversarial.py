"""Both sides of the game: a simulated attacker that learns, and a client that learns against it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from splitbench.core.component import validated
from splitbench.core.defense import Context
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.member import Batch, Client
from splitbench.core.message import About
from splitbench.core.party import client
from splitbench.core.randomness import generator
from splitbench.defenses._adversary.decoder import Decoder
from splitbench.defenses.adversarial import Adversarial

SAMPLE = (1, 8, 8)
LAYOUTS = {
    "maps": by_rank((6, 4, 4)),
    "maps as large as the image": by_rank((2, 8, 8)),
    "odd maps": by_rank((6, 3, 5)),
    "tokens": Layout("tokens", (17, 6), prefix=1, grid=(4, 4)),
    "tokens without a class token": Layout("tokens", (16, 6), grid=(4, 4)),
    "tokens that lie nowhere": by_rank((5, 12)),
    "a vector": by_rank((48,)),
}


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU())


def images(count=32, seed=0):
    """Smooth, and different enough that they must be seen to be drawn."""
    return F.interpolate(torch.rand(count, 1, 2, 2, generator=generator(seed)), size=(8, 8), mode="bilinear")


def defense(**settings):
    return Adversarial(**{"width": 16, "lr": 5e-3, **settings}).bind(Context(by_rank((6, 4, 4)), secret=7))


def error(adversary, stage, x):
    """The simulated attacker's error, read off the penalty's own parts."""
    z = stage(x).detach()
    return float(adversary._attacker(x, z).error(z, x))


def test_on_a_frozen_client_the_simulated_attacker_improves():
    stage, x, adversary = layers(), images(), defense()
    z = stage(x)
    before = error(adversary, stage, x)
    for _ in range(150):
        adversary.penalty(x, z)  # the client does not follow it
    after = error(adversary, stage, x)
    guess = float((x - x.mean(0)).square().mean())
    assert before > guess
    assert after < 0.3 * guess, "better than the mean image by far"


def test_a_client_that_learns_against_it_is_harder_to_reconstruct():
    """The client's reconstruction error rises, and one that does not learn stays easy for the same attacker."""
    x, errors = images(), {}
    for learns in (False, True):
        stage, adversary = layers(), defense()
        for _ in range(100):
            adversary.penalty(x, stage(x))
        easy = error(adversary, stage, x)
        optimizer = torch.optim.Adam(stage.parameters(), lr=5e-3)
        for _ in range(150):
            optimizer.zero_grad()
            adversary.penalty(x, stage(x)).backward()
            if learns:
                optimizer.step()
        errors[learns] = (easy, error(adversary, stage, x))
    assert errors[False][1] < errors[False][0]
    easy, hard = errors[True]
    assert hard > 3 * easy
    assert hard > 3 * errors[False][1]


def test_the_penalty_is_minus_the_weighted_error_of_the_attacker():
    x, stage, adversary = images(4), layers(), defense(weight=3.0)
    z = stage(x)
    penalty = adversary.penalty(x, z)
    decoder = adversary._attacker(x, z).decoder
    assert penalty.item() == pytest.approx(-3 * (decoder(z) - x).square().mean().item(), rel=1e-5)
    assert -3 <= penalty.item() <= 0, "images are in [0, 1], so that the client cannot gain without end"


def test_neither_learns_by_the_others_loss():
    x, stage, adversary = images(4), layers(), defense()
    penalty = adversary.penalty(x, stage(x))
    assert all(p.grad is None for p in stage.parameters()), "the attacker's training leaves the client alone"
    decoder = adversary._attacker(x, stage(x)).decoder
    before = {name: value.clone() for name, value in decoder.state_dict().items()}
    penalty.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in stage.parameters())
    assert all(p.grad is None for p in decoder.parameters())
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())


def test_more_steps_are_more_learning():
    x, stage = images(), layers()
    once, often = defense(), defense(steps=20)
    for adversary in (once, often):
        adversary.penalty(x, stage(x))
    assert error(often, stage, x) < error(once, stage, x)


def test_two_clients_have_attackers_of_their_own():
    x, stage = images(4), layers()
    shared = Context(by_rank((6, 4, 4)))
    one, two = (Adversarial().bind(replace(shared, client=i, secret=i)) for i in (0, 1))
    again = Adversarial().bind(replace(shared, client=0, secret=0))
    made = [bound._attacker(x, stage(x)) for bound in (one, two, again)]
    weights = [torch.cat([p.detach().flatten() for p in attacker.decoder.parameters()]) for attacker in made]
    assert made[0] is not made[1]
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2]), "the same secret begins with the same weights"
    for _ in range(3):
        one.penalty(x, stage(x))
    assert torch.equal(torch.cat([p.detach().flatten() for p in made[1].decoder.parameters()]), weights[1])
    assert one.bind(replace(shared, secret=3)).__dict__.get("_simulated") is None


def test_the_global_generator_is_left_alone():
    x, stage, adversary = images(2), layers(), defense()
    z = stage(x)
    before = torch.get_rng_state()
    adversary.penalty(x, z)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_it_learns_from_smashed_data_of_any_layout(layout):
    """Each is an invertible picture of the images, so that an attacker worth the name improves on it."""
    x = images(16)
    seen = torch.randn(64, layout.channels * layout.places, generator=generator(1)) / 8
    z = (x.flatten(1) @ seen).reshape(16, *((layout.shape) if not layout.prefix else (-1, layout.shape[1])))
    if layout.prefix:
        z = torch.cat((torch.zeros(16, layout.prefix, layout.shape[1]), z), 1)
    bound = Adversarial(width=16, lr=5e-3).bind(Context(layout, sample=SAMPLE))
    attacker = bound._attacker(x, z)
    assert attacker.decoder.layout == layout
    assert attacker.decoder(z).shape == x.shape
    before = attacker.error(z, x).item()
    attacker.learn(z, x, 60)
    assert attacker.error(z, x).item() < 0.7 * before


def test_the_class_token_is_read_too():
    layout = LAYOUTS["tokens"]
    decoder = Decoder(layout, SAMPLE, 8, 1)
    z = torch.rand(2, 17, 6, requires_grad=True)
    decoder(z).square().sum().backward()
    assert (z.grad[:, 0].abs().sum(1) > 0).all()
    assert (z.grad[:, 1:].abs().sum((1, 2)) > 0).all()


def test_a_larger_scale_of_the_smashed_data_is_no_protection():
    decoder, z = Decoder(LAYOUTS["maps"], SAMPLE, 8, 1), torch.rand(3, 6, 4, 4)
    torch.testing.assert_close(decoder(z), decoder(50 * z), rtol=1e-3, atol=1e-4)


def member(adversary, stage, frozen=False):
    return Client(client(0), [stage], adversary, frozen=frozen)


def batch(x, learning=True):
    rows = torch.arange(len(x))
    return Batch(x, rows, About.plain(0, rows), learning)


def test_a_client_whose_layers_are_frozen_is_refused():
    stage = layers().requires_grad_(False)
    with pytest.raises(CellError, match=r"adversarial: the client's layers are frozen.*cannot learn"):
        member(defense(), stage).smash(batch(images(4)))
    assert member(defense(weight=0), stage).smash(batch(images(4))).penalty is None


@pytest.mark.parametrize("how", ["frozen", "inference"])
def test_nothing_learns_where_nothing_is_to_be_learned(how):
    adversary, x = defense(), images(4)
    upload = member(adversary, layers(), frozen=how == "frozen").smash(batch(x, learning=how != "inference"))
    assert upload.penalty is None
    assert list(adversary.holds()) == []


def test_what_it_keeps_in_memory_is_told():
    adversary, x, stage = defense(), images(4), layers()
    adversary.penalty(x, stage(x))
    weights = sum(p.numel() for p in adversary._attacker(x, stage(x)).decoder.parameters())
    kept = [tensor.numel() for tensor in adversary.holds()]
    # Adam keeps two moments for each weight, and counts its steps.
    assert sum(kept) == pytest.approx(3 * weights, rel=0.01)


@pytest.mark.parametrize("x", [torch.rand(3, 39), torch.randint(30, (3, 12))])
def test_anything_but_images_is_refused(x):
    with pytest.raises(SplitbenchError, match=r"adversarial is for images, and a sample here has shape"):
        Adversarial().bind(Context(sample=tuple(x.shape[1:])))
    with pytest.raises(SplitbenchError, match="take nopeek"):
        Adversarial().penalty(x, torch.rand(3, 4, requires_grad=True))


@pytest.mark.parametrize("settings", [{"weight": -1}, {"lr": 0}, {"width": 0}, {"blocks": -1}, {"steps": 0}])
def test_settings_that_mean_nothing_are_mistakes(settings):
    _, mistakes = validated(Adversarial, settings, "")
    assert [m.where for m in mistakes] == list(settings)
