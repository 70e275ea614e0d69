"""Every attack: succeeds only where there is something to see, says what it lacks, and repeats itself."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Generator, Tensor, nn

from splitbench.core import registry
from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.component import settings_of
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.metrics.ssim import SSIM
from splitbench.runner.score import READOUTS
from tests.attacks._scene import SIDE, Identity, Scene, Silence, convolution, hijacked, scene

FLOORS = ("black", "class_mean", "mean_image", "nearest_auxiliary")
NAMES = registry.names("attacks")
LOOKING = [name for name in NAMES if name not in FLOORS]


# As strong as these small scenes ask for.
QUICK: dict[str, dict[str, Any]] = {
    "inversion": {"steps": 60},
    "oracle_decoder": {"steps": 60},
    "naive_decoder": {"steps": 60},
    "unsplit": {"outer": 30, "inner": 10},
    "fora": {"steps": 5, "decoder_steps": 60, "critic_width": 8},
    "seal_basis": {"steps": 5, "decoder_steps": 60, "critic_width": 8},
    "shadow_secrets": {"steps": 5, "decoder_steps": 60, "critic_width": 8},
    "sdar": {"steps": 5, "decoder_steps": 60, "critic_width": 8},
    "fsa": {"steps": 5, "decoder_steps": 60, "critic_width": 8},
    "fsha": {"decoder_steps": 60, "critic_width": 8},
}
# Who has neither data nor queries cannot be expected to undo layers it does not know on a handful of small images.
OBLIVIOUS = ("unsplit",)
# Who may not ask the client has to find it by what it sends, which for images whose ground is mere noise says little.
ALIGNING = ("fora", "fsa", "fsha", "sdar", "seal_basis", "shadow_secrets")


def attack(name: str, brief: bool = False) -> Any:
    """As strong as asked for here, or, where strength does not matter, as short as it can be."""
    kind = registry.load("attacks", name)
    return kind(**{**QUICK.get(name, {}), **(dict.fromkeys(kind.phases, 3) if brief else {})})


def guess(name: str, made: Scene, brief: bool = False) -> Tensor:
    return mount(attack(name, brief), made, generator(0, name))


def mount(mounted: Any, made: Scene, draws: Generator, steps: int = 60) -> Tensor:
    if isinstance(mounted, ActiveAttack):
        made = hijacked(mounted, made, draws, steps)
    elif isinstance(mounted, OnlineAttack):
        mounted.begin(made.view, draws)
        for message in made.messages:
            mounted.hear(message)
    found = mounted.run(made.view, draws).inputs
    assert found is not None
    return found


def score(name: str, make: Any) -> float:
    with scene(make, targets=64) as made:
        found = READOUTS[attack(name).readout](guess(name, made))
        return float(SSIM()(found, made.truth).mean())


def test_there_are_attacks_of_both_kinds() -> None:
    assert set(FLOORS) < set(NAMES)


@pytest.mark.parametrize("name", LOOKING)
def test_it_succeeds_where_there_is_something_to_see(name: str) -> None:
    floor = max(score(other, Identity) for other in FLOORS)
    assert score(name, Identity) >= 0.95 > floor
    if name not in OBLIVIOUS:
        assert score(name, convolution) > floor + (0.05 if name in ALIGNING else 0.2)


@pytest.mark.parametrize("name", LOOKING)
def test_it_finds_nothing_where_nothing_gets_through(name: str) -> None:
    floor = max(score(other, Silence) for other in FLOORS)
    assert score(name, Silence) <= floor + 0.05


@pytest.mark.parametrize("name", FLOORS)
def test_a_floor_does_not_look(name: str) -> None:
    with scene(Identity) as seen, scene(Silence) as unseen:
        assert torch.equal(guess(name, seen), guess(name, unseen))


@pytest.mark.parametrize("name", NAMES)
def test_guesses_are_images_and_the_same_seed_gives_the_same(name: str) -> None:
    before = torch.random.get_rng_state()
    with scene(convolution) as first, scene(convolution) as second:
        one, two = guess(name, first, brief=True), guess(name, second, brief=True)
        assert one.shape == (16, 1, SIDE, SIDE)
        assert torch.equal(one, two)
        assert torch.isfinite(one).all()
    assert torch.equal(before, torch.random.get_rng_state()), "torch's global generator belongs to the runner"


@pytest.mark.parametrize("name", NAMES)
def test_it_names_its_paper_or_says_that_it_is_a_floor(name: str) -> None:
    about, settings = registry.describe("attacks", name)
    assert "A floor" in about if name in FLOORS else re.search(r"https://|doi", about)
    assert all(setting.default and setting.note for setting in settings)
    assert set(settings_of(registry.load("attacks", name))) == {setting.name for setting in settings}


@pytest.mark.parametrize("name", NAMES)
def test_an_unmet_need_is_a_sentence(name: str) -> None:
    mounted: Attack = attack(name)
    everything = ThreatModel(True, True, 10**6, 10**6, True, True, "exact", 9)
    assert mounted.lacks(everything) is None
    nothing = mounted.lacks(ThreatModel())
    assert nothing is None or nothing.startswith("needs ")
    if mounted.needs != ThreatModel() or isinstance(mounted, OnlineAttack):
        needed = [f.name for f in fields(ThreatModel) if getattr(mounted.needs, f.name) != f.default]
        assert all(word in (nothing or "") for word in needed)


def _of_the_papers() -> dict[str, dict[str, Any]]:
    recipe = yaml.safe_load((Path(__file__).parents[2] / "recipes/attacks/undefended.yaml").read_text())
    return {
        name: part[name] for part in recipe["scales"]["paper"]["attacks"] if isinstance(part, dict) for name in part
    }


@pytest.mark.parametrize("name", _of_the_papers())
def test_the_papers_settings_build_and_take_a_step(name: str) -> None:
    kind = registry.load("attacks", name)
    settings = {**_of_the_papers()[name], **dict.fromkeys(kind.phases, 1)}
    if "warm" in settings and "warm" in kind.phases:
        settings["warm"] = 0
    with scene(lambda: nn.Sequential(nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)), targets=4) as made:
        found = mount(kind(**settings), made, generator(0), steps=1)
    assert found.shape == made.truth.shape
    assert bool(found.isfinite().all())
    assert float(found.var(0).mean()) > 0, "the guesses follow the targets"
