"""Shadow clients have secrets of their own, and a decoder learns through all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from splitbench.attacks.fora import FORA
from splitbench.attacks.shadow_secrets import ShadowSecrets
from splitbench.core.defense import Composed, Context
from splitbench.core.imagined import Imagined, Rebuilt, Several
from splitbench.core.randomness import generator
from splitbench.core.view import View
from splitbench.defenses.gaussian import Gaussian
from splitbench.defenses.seal import SEAL
from tests.attacks._scene import Identity, scene

BRIEF: dict[str, Any] = dict.fromkeys(FORA.phases, 3)


def mounted(view: View, attack: FORA) -> Tensor:
    recovered = attack.run(view, generator(0)).inputs
    assert recovered is not None
    return recovered


def of_seal(shadow: Imagined) -> SEAL:
    assert isinstance(shadow, Rebuilt)
    assert isinstance(shadow.defense, SEAL)
    return shadow.defense


def test_a_shadow_of_seal_has_another_function_and_the_same_omega() -> None:
    real = SEAL(omega=0.4).bind(Context(secret=7))
    guessed, draws = real.imagined("family", torch.zeros(0)), generator(0)
    shadows = [of_seal(guessed.shadow(draws)) for _ in range(3)]
    assert all(shadow.omega == 0.4 for shadow in shadows)
    names = {shadow.function_of(14, 14).name for shadow in shadows}
    assert len(names) == 3
    assert real.function_of(14, 14).name not in names


def test_of_several_defenses_each_has_its_own_shadow() -> None:
    both = Composed((Gaussian(sigma=0.5), SEAL(key=0))).imagined("exact", torch.zeros(0)).shadow(generator(0))
    assert isinstance(both, Several)
    noise, seal = both.parts
    assert isinstance(noise, Rebuilt)
    assert noise.defense == Gaussian(sigma=0.5), "noise has no secret"
    assert of_seal(seal).key != 0


def test_where_nothing_is_known_or_the_secret_is_held_it_is_fora() -> None:
    with scene(Identity) as made:
        assert torch.equal(mounted(made.view, ShadowSecrets(**BRIEF)), mounted(made.view, FORA(**BRIEF)))
        secret = SEAL(key=0).imagined("exact", made.view.merged)
        held = replace(made.view, imagined=secret, threat=replace(made.view.threat, knowledge="exact"))
        assert torch.equal(mounted(held, ShadowSecrets(**BRIEF)), mounted(held, FORA(**BRIEF)))


@dataclass(frozen=True)
class Remembering(Imagined):
    """Remembers the secrets that were put to use."""

    used: set[int]
    number: int = 0

    def shadow(self, generator: Generator) -> Imagined:
        return Remembering(self.used, int(torch.randint(2**62, (), generator=generator)))

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        self.used.add(self.number)
        return z


def test_it_learns_through_more_than_one_secret() -> None:
    used: set[int] = set()
    with scene(Identity) as made:
        view = replace(made.view, imagined=Remembering(used), threat=replace(made.view.threat, knowledge="family"))
        mounted(view, ShadowSecrets(**BRIEF, shadows=8))
    assert 2 < len(used) <= 8
    assert 0 not in used


def test_what_a_shadow_sends_is_seal() -> None:
    x = torch.randn(2, 3, 14, 14, generator=generator(1))
    sent = SEAL(function="cos").imagined("exact", x).shadow(generator(2)).simulate(x, None)
    kept = sent.square().sum((-2, -1)) / x.square().sum((-2, -1))
    assert (kept >= 0.7 - 1e-5).all()
    assert (kept < 1).any()
