"""What holds for a defense by its being in the folder."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields, replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from splitbench.core import registry
from splitbench.core.component import settings_of, validated
from splitbench.core.defense import Context, Defense
from splitbench.core.layout import Layout, by_rank
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About
from splitbench.core.randomness import generator
from splitbench.core.schedule import together
from splitbench.core.split import cut, same_network
from splitbench.core.wire import Wire
from splitbench.defenses._shuffling.tokens import Shuffling
from splitbench.runner.parties import assemble, one_step
from splitbench.topologies.parallel import Parallel
from tests.attacks._elsewhere import ELSEWHERE, Elsewhere, There, moved

each = pytest.mark.parametrize("name", registry.names("defenses"))


@each
def test_it_says_what_it_does_and_its_settings_have_defaults(name):
    kind = registry.load("defenses", name)
    assert issubclass(kind, Defense)
    assert (kind.__doc__ or "").partition("\n")[0].rstrip().endswith(".")
    settings, mistakes = validated(kind, {}, name)
    assert not mistakes
    assert settings.keys() == settings_of(kind).keys()


@each
def test_every_setting_is_explained(name):
    _, settings = registry.describe("defenses", name)
    assert [s.name for s in settings if not s.note] == []


def test_no_defense_is_the_baseline():
    none = registry.load("defenses", "none")
    moments = ("prepare", "inputs", "penalty", "outgoing", "mix", "unmix", "incoming", "gradients", "imagined")
    assert all(getattr(none, moment) is getattr(Defense, moment) for moment in moments)
    assert not none.mixes


MAPS = Context(by_rank((6, 8, 8)), classes=3, clients=2, secret=5)
# For defenses that work on tokens: patches of 2 x 2 pixels, embedded.
TOKENS = replace(MAPS, layout=Layout("tokens", (16, 6), 0, (4, 4)), tokens="tokens", sample=(1, 8, 8))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(1, 6, 2, 2)

    def forward(self, x):
        return self.embed(x).flatten(2).transpose(1, 2)


class Mean(nn.Module):
    def forward(self, tokens):
        return tokens.mean(1)


def context_for(defense):
    return TOKENS if isinstance(defense, Shuffling) else MAPS


def network(defense):
    torch.manual_seed(0)
    if isinstance(defense, Shuffling):
        layers = {"tokens": Tokens(), "block": nn.Linear(6, 6), "pool": Mean(), "head": nn.Linear(6, 3)}
        return nn.Sequential(OrderedDict(layers)), "block"
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 3)), "0"


def parties(defense, elsewhere=False):
    """Two clients with unequal batches, their server, and whoever else the defense brings along."""
    whole, place = network(defense)
    context = context_for(defense)
    split = defense.bind(context).prepare(same_network(cut(whole, [place])))
    if elsewhere:
        split = replace(split, stages=tuple(moved(stage) for stage in split.stages))
    return assemble(split, Plan((6, 6)), defense, context, 0, F.cross_entropy)


def a_step(defense, elsewhere=False):
    """One step of two clients; their gradients and the server's, and all that passed."""
    members, plan = parties(defense, elsewhere)
    batches = {}
    for party in plan.clients:
        draws = generator(party.index, "batch")
        x, y = torch.rand(6, 1, 8, 8, generator=draws), torch.randint(3, (6,), generator=draws)
        about = About.plain(party.index, torch.arange(6))
        batches[party] = Batch(moved(x), moved(y), about) if elsewhere else Batch(x, y, about)
    wire = Wire(record=True)
    together(one_step(Parallel(), members, plan, batches), wire, lambda party: members[party].at_work())
    learned = [
        p for member in members.values() for stage in member.stages for p in stage.parameters() if p.requires_grad
    ]
    slopes = [p.grad for p in learned]
    return slopes, wire.transcript


@each
def test_a_step_is_taken_where_the_batch_is_and_is_the_step_of_the_cpu(name):
    """Nothing on the CPU meets it on the way; draws are the CPU's, so that numbers are the same."""
    kind = registry.load("defenses", name)
    slopes, passed = a_step(kind())
    with Elsewhere():
        slopes_there, passed_there = a_step(kind(), elsewhere=True)
    assert len(passed) == len(passed_there)
    pairs = [*zip(slopes, slopes_there, strict=True)]
    pairs += [(m.tensor, n.tensor) for m, n in zip(passed, passed_there, strict=True)]
    for here, there in pairs:
        assert isinstance(there, There)
        assert there.device == ELSEWHERE
        torch.testing.assert_close(there.here, here)


@each
def test_every_client_has_its_own_instance_and_binding_changes_nobody_else(name):
    defense = registry.load("defenses", name)()
    one, two = (defense.bind(replace(MAPS, client=index, secret=index)) for index in (0, 1))
    assert one is not two
    assert one.context.client == 0
    assert two.context.client == 1
    assert defense.context == Context()
    assert one == two == defense, "settings are all that makes them equal"


@each
def test_the_same_seed_gives_the_same_step(name):
    kind = registry.load("defenses", name)
    (one, first), (two, second) = (a_step(kind()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert all(torch.equal(a.tensor, b.tensor) for a, b in zip(first, second, strict=True))


@each
def test_an_adversary_that_knows_nothing_imagines_nothing_and_one_that_holds_the_secret_all(name):
    defense = registry.load("defenses", name)()
    defense = defense.bind(context_for(defense))
    z = torch.rand(4, *defense.context.layout.shape, generator=generator(0))
    assert not defense.imagined("none", z).disguises
    assert defense.imagined("exact", z).disguises == defense.disguises
    imagined = defense.imagined("exact", z).simulate(z, generator(1))
    torch.testing.assert_close(imagined, defense.sent(z, generator(1)))


@each
def test_below_exact_nothing_leads_to_the_secret(name):
    """Neither in what is imagined nor in a copy of the adversary's own."""
    kind = registry.load("defenses", name)
    marked = {field.name: 987654321 for field in fields(kind) if field.name in kind.secrets}
    defense = kind(**marked).bind(replace(MAPS, secret=123456789))
    z = torch.rand(4, 6, 8, 8, generator=generator(0))
    for rung in ("none", "family"):
        seen = repr(reachable(defense.imagined(rung, z)))
        assert "123456789" not in seen
        assert "987654321" not in seen
    seen = repr(reachable(defense.rebuilt(generator(0))))
    assert "123456789" not in seen
    assert "987654321" not in seen


def reachable(thing, depth=6):
    """Everything that attributes lead to."""
    if depth == 0 or not hasattr(thing, "__dict__"):
        return thing
    return {name: reachable(value, depth - 1) for name, value in vars(thing).items()}


@each
def test_what_is_drawn_for_inference_leaves_the_batch_its_size(name):
    defense = registry.load("defenses", name)()
    defense = defense.bind(context_for(defense))
    about = About.plain(0, torch.arange(3))
    batch = Batch(torch.rand(3, 1, 8, 8), torch.zeros(3, dtype=torch.long), about, learning=False)
    assert len(defense.inputs(batch, generator(0))) == 3
