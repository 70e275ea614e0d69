"""What holds for a defense by its being in the folder."""

from __future__ import annotations

import pytest

from splitbench.core import registry
from splitbench.core.component import settings_of, validated
from splitbench.core.defense import Defense

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
    moments = ("prepare", "inputs", "penalty", "outgoing", "mix", "incoming", "gradients")
    assert all(getattr(none, moment) is getattr(Defense, moment) for moment in moments)
    assert not none.mixes
