"""Shadow clients have secrets of their own, and a decoder learns through all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from splitbench.attacks.fora import FORA
from splitbench.attacks.shadow_secrets import ShadowSecrets
from splitbench.core.defense import Composed, Defense
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator
from splitbench.core.view import View
from splitbench.core.wire import Message
from splitbench.defenses.gaussian import Gaussian
from splitbench.defenses.seal import SEAL
from tests.attacks._scene import Identity, scene

BRIEF: dict[str, Any] = dict.fromkeys(FORA.phases, 3)


def mounted(view: View, attack: FORA) -> Tensor:
    recovered = attack.run(view, generator(0)).inputs
    assert recovered is not None
    return recovered


def test_a_shadow_of_seal_has_another_function_and_the_same_omega() -> None:
    guessed = SEAL(omega=0.4).known("family", torch.zeros(0))
    draws = generator(0)
    shadows = [guessed.shadow(draws) for _ in range(3)]
    assert all(isinstance(shadow, SEAL) and shadow.omega == 0.4 for shadow in shadows)
    assert len({shadow.function_of(0, 14, 14).name for shadow in shadows if isinstance(shadow, SEAL)}) == 3


def test_a_defense_without_a_secret_is_its_own_shadow() -> None:
    noise = Gaussian(sigma=0.5)
    assert noise.shadow(generator(0)) is noise
    both = Composed((noise, SEAL(key=0))).shadow(generator(0))
    assert isinstance(both, Composed)
    assert both.parts[0] is noise
    assert both.parts[1] != SEAL(key=0)


def test_where_nothing_is_known_or_the_secret_is_held_it_is_fora() -> None:
    with scene(Identity) as made:
        assert torch.equal(mounted(made.view, ShadowSecrets(**BRIEF)), mounted(made.view, FORA(**BRIEF)))
        held = replace(made.view, defense=SEAL(key=0), threat=replace(made.view.threat, knowledge="exact"))
        assert torch.equal(mounted(held, ShadowSecrets(**BRIEF)), mounted(held, FORA(**BRIEF)))


def test_it_learns_through_more_than_one_secret() -> None:
    class Listening(Defense):
        """Remembers the draws that were put to use."""

        used: set[int] = set()  # noqa: RUF012

        def __init__(self, number: int = 0) -> None:
            self.number = number

        def shadow(self, generator: torch.Generator) -> Defense:
            return Listening(int(torch.randint(2**62, (), generator=generator)))

        def outgoing(self, message: Message, generator: torch.Generator | None) -> Message:
            self.used.add(self.number)
            return message

    with scene(Identity) as made:
        view = replace(made.view, defense=Listening(), threat=replace(made.view.threat, knowledge="family"))
        mounted(view, ShadowSecrets(**BRIEF, shadows=8))
    assert 2 < len(Listening.used) <= 8
    assert 0 not in Listening.used


def test_what_a_shadow_sends_is_seal() -> None:
    x = torch.randn(2, 3, 14, 14, generator=generator(1))
    shadow = SEAL(function="cos").shadow(generator(2))
    sent = shadow.outgoing(Message(0, CLIENT, SERVER, "smashed", 0, x), None).tensor
    kept = sent.square().sum((-2, -1)) / x.square().sum((-2, -1))
    assert (kept >= 0.7 - 1e-5).all()
    assert (kept < 1).any()
