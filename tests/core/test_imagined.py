"""What an adversary imagines of a defense, and that below `exact` nothing leads from there to the secret."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import getclosurevars

import pytest
import torch
from torch import Tensor

from splitbench.core.defense import Composed, Context, Defense
from splitbench.core.imagined import Imagined, Rebuilt, Several, several
from splitbench.core.layout import Layout
from splitbench.core.randomness import derive, generator
from splitbench.core.registry import load, names
from splitbench.defenses.gaussian import Gaussian
from splitbench.defenses.seal import SEAL
from tests.core._reach import holds

SECRET = 3_141_592_653
KEY = 2_718_281_828
SIGMA = 0.7654321
CONTEXT = Context(Layout("maps", (3, 8, 8)), 10, 2, client=1, secret=SECRET)

below = pytest.mark.parametrize("rung", ["none", "family"])

DEFENDED = {
    "seal": SEAL(),
    "seal with a key": SEAL(key=KEY),
    "seal, indices before": SEAL(key=KEY, indices="before"),
    "gaussian": Gaussian(SIGMA),
    "both": Composed((SEAL(), Gaussian(SIGMA))),
    "both, with a key": Composed((Gaussian(SIGMA), SEAL(key=KEY))),
    "seal twice": Composed((SEAL(), SEAL(omega=0.9))),
    "nested": Composed((Composed((SEAL(key=KEY),)), Gaussian(SIGMA))),
}
each = pytest.mark.parametrize("defense", DEFENDED.values(), ids=DEFENDED)


def smashed() -> Tensor:
    return torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def parts_of(defense: Defense) -> list[Defense]:
    return [p for part in defense.parts for p in parts_of(part)] if isinstance(defense, Composed) else [defense]


def numbers_of(defense: Defense) -> list[object]:
    """The seeds of a bound defense, and the strength of its noise."""
    found: list[object] = []
    for part in parts_of(defense):
        found += [SECRET, part.context.secret]
        found += [part.key] if isinstance(part, SEAL) and part.key is not None else []
        found += [part.sigma] if isinstance(part, Gaussian) else []
    return found


def functions_of(defense: Defense) -> list[Tensor]:
    """What SEAL keeps secret: the amplitudes and phases of the function, and the bases made of it."""
    found: list[Tensor] = []
    for part in parts_of(defense):
        if isinstance(part, SEAL):
            inside = getclosurevars(part.function_of(8, 8).at).nonlocals
            found += [inside["amplitudes"], inside["phases"], *part.bases(8, 8)]
    return found


def used(imagined: Imagined, sent: Tensor) -> list[Imagined]:
    """An imagined defense after everything an attack can do with it, and what that gave."""
    shadow, given = imagined.shadow(generator(1)), imagined.given(sent)
    for one in (imagined, shadow, given):
        one.simulate(smashed(), generator(2))
        one.merge(torch.stack([sent, sent]))
    return [imagined, shadow, given]


@each
@below
def test_below_exact_nothing_leads_to_the_secret(defense, rung):
    true = defense.bind(CONTEXT)
    sent = true.sent(smashed(), generator(0))
    imagined = used(true.imagined(rung, sent), sent)
    assert holds(imagined, numbers_of(true) + functions_of(true)) == []


@each
def test_at_exact_the_secret_is_held(defense):
    true = defense.bind(CONTEXT)
    sent = true.sent(smashed(), generator(0))
    imagined = true.imagined("exact", sent)
    held = numbers_of(true)
    if isinstance(true, Composed):
        held = [number for number in held if number != SECRET]  # of each part its own
    assert holds([imagined], held) == held
    assert torch.equal(imagined.simulate(smashed(), generator(0)), sent)


@pytest.mark.parametrize("key", [None, KEY])
def test_at_exact_the_bases_are_held_once_they_are_made(key):
    true = SEAL(key=key).bind(CONTEXT)
    sent = true.sent(smashed().double(), None)
    bases = list(true.bases(8, 8))
    assert holds([true.imagined("exact", sent).given(sent)], bases) == bases
    assert holds([true.imagined("family", sent).given(sent)], bases) == []


def test_the_walk_would_have_found_a_secret_in_a_closure_a_slot_a_cache_and_a_container():
    class Slotted:
        __slots__ = ("inside",)

    slotted = Slotted()
    slotted.inside = ({"deep": [torch.tensor([1.0, 2.0])]},)
    hidden = SECRET + 1
    assert holds([lambda: hidden], [hidden, SECRET]) == [hidden]
    assert holds([Rebuilt(Defense().bind(CONTEXT))], [SECRET]) == [SECRET]
    assert len(holds([slotted], [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0])])) == 1


@pytest.mark.parametrize("name", names("defenses"))
@below
def test_no_defense_of_the_folder_shows_its_secret_below_exact(name, rung):
    true = load("defenses", name)().bind(CONTEXT)
    sent = true.sent(smashed(), generator(0))
    assert holds(used(true.imagined(rung, sent), sent), [SECRET]) == []


@dataclass(frozen=True)
class Cached(Defense):
    """Keeps what it made of its secret, as one that is slow to make would."""

    @cached_property
    def mask(self) -> Tensor:
        return torch.rand(8, 8, generator=generator(self.context.secret, "mask"))

    def outgoing(self, message, generator):
        return message.carrying(message.tensor * self.mask)


@below
def test_what_a_defense_keeps_of_its_secret_is_not_copied_either(rung):
    for defense in (Cached(), Composed((Gaussian(SIGMA), Cached()))):
        true = defense.bind(CONTEXT)
        sent = true.sent(smashed(), generator(0))
        masks = [part.mask for part in parts_of(true) if isinstance(part, Cached)]
        assert holds(used(true.imagined(rung, sent), sent), masks) == []
        assert holds([true.imagined("exact", sent)], masks) == masks


def test_two_shadows_have_two_secrets_neither_of_them_the_clients():
    for defense in (SEAL(), Cached(), Composed((SEAL(key=KEY), Cached()))):
        true = defense.bind(CONTEXT)
        sent = true.sent(smashed(), None)
        imagined, draws = true.imagined("family", sent), generator(0)
        made = [imagined.shadow(draws).simulate(smashed(), None) for _ in range(2)]
        assert not torch.equal(made[0], made[1])
        assert not any(torch.equal(one, sent) for one in made)


@below
def test_what_is_imagined_does_not_depend_on_the_secret(rung):
    for defense in (SEAL(), SEAL(key=KEY), Cached()):
        observed = smashed()
        made = [
            Defense.bind(defense, Context(CONTEXT.layout, 10, 2, client, secret)).imagined(rung, observed)
            for client, secret in ((0, 1), (1, 2))
        ]
        first, second = (one.simulate(smashed(), generator(0)) for one in made)
        assert torch.equal(first, second)


class Largest(Imagined):
    """What was sent several times is best read off its largest value; what is sent is not changed."""

    def merge(self, rounds):
        return rounds.amax(0)


class Doubled(Imagined):
    def simulate(self, z, generator):
        return 2 * z

    def given(self, sent):
        return Tripled()


class Tripled(Imagined):
    def simulate(self, z, generator):
        return 3 * z

    def shadow(self, generator):
        return Doubled()


def test_the_baseline_imagines_nothing():
    z, rounds = torch.ones(2), torch.tensor([[1.0], [5.0]])
    plain = Imagined()
    assert not plain.disguises
    assert plain.simulate(z, None) is z
    assert plain.shadow(generator(0)) is plain.given(z) is plain
    assert plain.merge(rounds).item() == 3
    assert torch.equal(plain.merge(rounds[:1]), rounds[0])


def test_of_one_defense_the_composition_is_that_defense():
    rounds = torch.tensor([[1.0], [5.0]])
    assert several([Largest()]).merge(rounds).item() == 5
    assert several([Imagined(), Largest()]).merge(rounds).item() == 5
    assert isinstance(several([Imagined(), Doubled()]), Doubled)
    assert type(several([])) is type(several([Imagined(), Imagined()])) is Imagined


def test_several_act_in_their_order_and_are_merged_by_the_mean():
    class Plus(Imagined):
        def simulate(self, z, generator):
            return z + 1

    both = several([Plus(), Imagined(), Doubled()])
    assert isinstance(both, Several)
    assert both.disguises
    assert both.simulate(torch.ones(1), None).item() == 4
    assert several([Largest(), Largest()]).merge(torch.tensor([[1.0], [5.0]])).item() == 3


def test_of_several_the_last_one_reads_off_what_was_sent_and_all_have_shadows():
    both = several([Doubled(), Doubled()])
    assert both.given(torch.ones(1)).simulate(torch.ones(1), None).item() == 6
    assert several([Tripled(), Tripled()]).shadow(generator(0)).simulate(torch.ones(1), None).item() == 4


def test_a_composition_at_family_is_what_its_parts_are():
    true = Composed((SEAL(key=KEY), Gaussian(SIGMA))).bind(CONTEXT)
    sent = true.sent(smashed(), generator(0))
    imagined = true.imagined("family", sent)
    apart = [part.imagined("family", sent) for part in true.parts]
    expected = apart[1].simulate(apart[0].simulate(smashed(), generator(3)), generator(3))
    assert torch.equal(imagined.simulate(smashed(), generator(3)), expected)
    assert type(true.imagined("none", sent)) is Imagined


def test_parts_of_a_composition_have_functions_of_their_own():
    first, second = Composed((SEAL(), SEAL())).bind(CONTEXT).parts
    assert {first.context.secret, second.context.secret} == {derive(SECRET, 0), derive(SECRET, 1)}
    assert not torch.equal(first.bases(8, 8)[0], second.bases(8, 8)[0])
