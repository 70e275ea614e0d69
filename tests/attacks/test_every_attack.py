"""Every attack, by its goal and modality: succeeds only where there is something to see, says what it lacks, and
repeats itself."""

from __future__ import annotations

import functools
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Generator, Tensor, nn

from splitbench.core import registry
from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.component import settings_of
from splitbench.core.goal import GOALS
from splitbench.core.randomness import generator
from splitbench.core.threat import ANY, ThreatModel
from splitbench.core.view import Recovered, View
from splitbench.runner.score import READOUTS
from tests.attacks._scene import EVERYTHING, PLAIN, SILENT, Scene, SilentTiles, Tiles, convolution, hijacked, scene

NAMES = registry.names("attacks")
KINDS: dict[str, type[Attack]] = {name: registry.load("attacks", name) for name in NAMES}


def modalities(name: str) -> tuple[str, ...]:
    works_on = KINDS[name].modality
    return tuple(PLAIN) if works_on is None else (works_on,) if isinstance(works_on, str) else works_on


FLOORS = [name for name in NAMES if KINDS[name].role == "floor"]
LOOKING = [(name, modality) for name in NAMES if name not in FLOORS for modality in modalities(name)]
EACH = [(name, modality) for name in NAMES for modality in modalities(name)]
looking = pytest.mark.parametrize(("name", "modality"), LOOKING)
each = pytest.mark.parametrize(("name", "modality"), EACH)


# As strong as these small scenes ask for.
QUICK: dict[str, dict[str, Any]] = {
    "inversion": {"steps": 60},
    "oracle_decoder": {"steps": 60},
    "naive_decoder": {"steps": 60},
    "mae_decoder": {"steps": 150, "lr": 3e-3, "width": 64, "blocks": 1},
    "pix2pix": {"steps": 200, "lr": 5e-3, "width": 8, "dropout": 0.0},
    "white_box": {"steps": 60},
    "field_decoder": {"steps": 100},
    "jigsaw": {"steps": 20, "width": 32, "blocks": 1},
    "batch_jigsaw": {"steps": 20, "width": 32, "blocks": 1},
    "multi_round": {"steps": 20, "width": 32, "blocks": 1},
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
# A U-Net that was trained for seconds smooths the noise of which the ground of these images is made.
SMOOTHING = ("pix2pix",)
# Who reads a patch off each token needs tokens; and who puzzles does not look at their order, and a noisy ground has
# no other.
PUZZLING = ("jigsaw", "batch_jigsaw", "multi_round", "patch_set")


def attack(name: str, brief: bool = False) -> Any:
    """As strong as asked for here, or, where strength does not matter, as short as it can be."""
    kind: Any = KINDS[name]
    return kind(**{**QUICK.get(name, {}), **(dict.fromkeys(kind.phases, 3) if brief else {})})


def granted(name: str) -> ThreatModel:
    """Everything, to whoever has to mount it."""
    party = KINDS[name].needs.party
    return replace(EVERYTHING, party={"client": "client0", ANY: "server"}.get(party, party))


def guess(name: str, made: Scene, brief: bool = False) -> Tensor:
    return mount(attack(name, brief), made, generator(0, name))


def mount(mounted: Any, made: Scene, draws: Generator, steps: int = 60) -> Tensor:
    if isinstance(mounted, ActiveAttack):
        made = hijacked(mounted, made, draws, steps)
    elif isinstance(mounted, OnlineAttack):
        mounted.begin(made.view, draws)
        for message in made.messages:
            mounted.hear(message)
    found = getattr(mounted.run(made.view, draws), mounted.goal)
    assert found is not None
    return found  # type: ignore[no-any-return]


@functools.cache
def score(name: str, modality: str, make: Any) -> float:
    goal = KINDS[name].goal
    with scene(make, granted(name), targets=64, modality=modality) as made:
        found = guess(name, made)
        if goal == "inputs" and modality == "image":
            found = READOUTS[KINDS[name].readout](found)
        metric: Any = registry.load("metrics", GOALS[goal].ranking(modality))()
        return float(metric(found, made.true(goal)).mean())


def floor(name: str, modality: str, make: Any) -> float:
    """The best that attackers with this goal reach who look at nothing."""
    rivals = [other for other in FLOORS if KINDS[other].goal == KINDS[name].goal and modality in modalities(other)]
    return max(score(other, modality, make) for other in rivals)


def test_every_goal_has_a_floor_for_every_modality_of_its_attacks() -> None:
    for name, modality in LOOKING:
        goal = GOALS[KINDS[name].goal]
        assert goal.floor(modality) in FLOORS
        assert modality in modalities(goal.floor(modality))
        assert all(KINDS[other].goal == goal.name for other in goal.floors if goal.name != "attributes")


@looking
def test_it_succeeds_where_there_is_something_to_see(name: str, modality: str) -> None:
    enough = 0.75 if name in SMOOTHING else 0.95 if modality == "image" and KINDS[name].goal == "inputs" else 0.9
    plain = Tiles if name in PUZZLING else PLAIN[modality]
    assert score(name, modality, plain) >= enough > floor(name, modality, plain)
    if modality == "image" and KINDS[name].goal == "inputs" and name not in (*OBLIVIOUS, *PUZZLING):
        ahead = 0.05 if name in ALIGNING else 0.2
        assert score(name, modality, convolution) > floor(name, modality, convolution) + ahead


@looking
def test_it_finds_nothing_where_nothing_gets_through(name: str, modality: str) -> None:
    silent = SilentTiles if name in PUZZLING else SILENT[modality]
    assert score(name, modality, silent) <= floor(name, modality, silent) + 0.05


@pytest.mark.parametrize(("name", "modality"), [each for each in EACH if each[0] in FLOORS])
def test_a_floor_does_not_look(name: str, modality: str) -> None:
    with scene(PLAIN[modality], modality=modality) as seen, scene(SILENT[modality], modality=modality) as unseen:
        assert torch.equal(guess(name, seen), guess(name, unseen))


@each
def test_guesses_have_their_shape_and_the_same_seed_gives_the_same(name: str, modality: str) -> None:
    before = torch.random.get_rng_state()
    make = convolution if modality == "image" else PLAIN[modality]
    with (
        scene(make, granted(name), modality=modality) as first,
        scene(make, granted(name), modality=modality) as second,
    ):
        one, two = guess(name, first, brief=True), guess(name, second, brief=True)
        if KINDS[name].goal == "inputs":
            assert one.shape == first.truth.shape
        assert len(one) == 16
        assert torch.equal(one, two)
        assert torch.isfinite(one).all()
    assert torch.equal(before, torch.random.get_rng_state()), "torch's global generator belongs to the runner"


@pytest.mark.parametrize("name", NAMES)
def test_it_names_its_paper_or_says_that_it_is_a_floor(name: str) -> None:
    about, settings = registry.describe("attacks", name)
    assert "A floor" in about if name in FLOORS else re.search(r"https://|doi", about)
    assert all(setting.default and setting.note for setting in settings)
    assert set(settings_of(KINDS[name])) == {setting.name for setting in settings}


@pytest.mark.parametrize("name", NAMES)
def test_bars_are_of_metrics_that_score_its_goal_and_hold_for_any_data(name: str) -> None:
    for metric, bars in KINDS[name].bars.items():
        scoring = registry.load("metrics", metric)
        assert scoring.goal == KINDS[name].goal  # type: ignore[attr-defined]
        assert "*" in bars
        low, high = scoring.bounds  # type: ignore[attr-defined]
        assert all(low < bar < high for bar in bars.values())
    ranked = {GOALS[KINDS[name].goal].ranking(modality) for modality in modalities(name)}
    assert KINDS[name].role != "attack" or ranked <= set(KINDS[name].bars), "what ranks it calibrates it"


@pytest.mark.parametrize("name", NAMES)
def test_an_unmet_need_is_a_sentence(name: str) -> None:
    mounted: Attack = attack(name)
    everything = replace(
        granted(name), auxiliary=10**6, queries=10**6, transcript=True, tampers=True, knowledge="exact", rounds=9
    )
    assert mounted.lacks(everything) is None
    nothing = mounted.lacks(ThreatModel())
    assert nothing is None or nothing.startswith("needs ")
    for field in fields(ThreatModel):
        need = getattr(mounted.needs, field.name)
        if need != field.default and (field.name, need) != ("party", ANY):
            assert field.name in (nothing or "")


class Mean(Attack):
    """Guesses that what it was sent is the input: the mean of all rounds, or the first alone."""

    def __init__(self, first: bool) -> None:
        self.first = first

    def run(self, view: View, generator: Generator) -> Recovered:
        return Recovered(inputs=view.targets[0] if self.first else view.merged)


def noise(sigma: float) -> Any:
    draws = generator(9, "noise")
    return lambda z: z + sigma * torch.randn(z.shape, generator=draws)


def test_two_rounds_reach_an_attack_as_two_and_more_of_them_average_noise_away() -> None:
    with scene(PLAIN["image"], replace(EVERYTHING, rounds=2), disguise=noise(0.5)) as made:
        assert made.view.targets.shape == (2, *made.truth.shape)
        assert not torch.equal(*made.view.targets)
        torch.testing.assert_close(made.view.merged, made.view.targets.mean(0))
        assert made.view.query is not None
        assert made.view.query(made.truth).shape == (2, *made.truth.shape)
        assert made.view.query.left == EVERYTHING.queries - len(made.truth), "rounds are not counted, inputs are"
        errors = [
            float((mount(Mean(first), made, generator(0)) - made.truth).square().mean()) for first in (True, False)
        ]
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.1)


@pytest.mark.parametrize("name", ["inversion", "fora"])
def test_under_noise_more_rounds_recover_more(name: str) -> None:
    metric: Any = registry.load("metrics", "ssim")()
    scores = []
    for rounds in (1, 16):
        with scene(PLAIN["image"], replace(EVERYTHING, rounds=rounds), targets=64, disguise=noise(0.5)) as made:
            scores.append(float(metric(guess(name, made), made.true()).mean()))
    assert scores[1] > scores[0] + 0.1


def _of_the_papers() -> dict[str, dict[str, Any]]:
    recipe = yaml.safe_load((Path(__file__).parents[2] / "recipes/attacks/undefended.yaml").read_text())
    return {
        name: part[name] for part in recipe["scales"]["paper"]["attacks"] if isinstance(part, dict) for name in part
    }


@pytest.mark.parametrize("name", _of_the_papers())
def test_the_papers_settings_build_and_take_a_step(name: str) -> None:
    kind: Any = KINDS[name]
    settings = {**_of_the_papers()[name], **dict.fromkeys(kind.phases, 1)}
    if "warm" in settings and "warm" in kind.phases:
        settings["warm"] = 0
    with scene(lambda: nn.Sequential(nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)), targets=4) as made:
        found = mount(kind(**settings), made, generator(0), steps=1)
    assert found.shape == made.truth.shape
    assert bool(found.isfinite().all())
    assert float(found.var(0).mean()) > 0, "the guesses follow the targets"
