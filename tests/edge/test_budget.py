"""A budget is answered: what fits, best first, or which limit leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.edge.budget import choices, need, parse, why_none
from splitbench.edge.compare import axes_of, cases, expand
from splitbench.edge.device import load
from splitbench.edge.profile import Profile, profile
from splitbench.store.outcome import Score
from splitbench.store.store import Store
from tests.report._mounted import mount
from tests.runner.test_store import outcome

BASE = {"model": "lenet5", "shape": "1x28x28"}


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    axes = expand(axes_of(["cut=conv1,conv2", "batch=4,32", "defense=none,gaussian"]))
    return [profile(case, load("rpi4_2gb")) for case in cases(BASE, axes)]


def test_a_budget_is_read_with_its_units() -> None:
    budget = parse("memory=2GB, step=250ms,uplink=10Mbit/s")
    assert budget.limits == {"memory": 2e9, "step": 0.25}
    assert budget.on(load("rpi4")).uplink.value == 10e6
    assert parse("step=20us").limits["step"] == pytest.approx(2e-5)
    with pytest.raises(SplitbenchError) as caught:
        parse("memry=2GB,step=1,energy=-3J,uplink=10")
    text = str(caught.value)
    assert "did you mean 'memory'" in text
    assert text.count("expected an amount such as") == 3
    assert "got '1'; units: s, ms, us, min" in text
    with pytest.raises(SplitbenchError, match="a link is no limit"):
        parse("uplink=10Mbit/s")


def test_every_choice_is_listed_and_the_feasible_ones_are(profiles: list[Profile], tmp_path: Path) -> None:
    limit = sorted(p.seconds.value for p in profiles)[len(profiles) // 2]
    found = choices(profiles, parse(f"step={limit}s,memory=1GB"), Store(tmp_path))
    assert len(found) == len(profiles) == 8
    feasible = [c for c in found if c.excess <= 1]
    assert 0 < len(feasible) < 8
    assert found[: len(feasible)] == feasible
    for choice in found:
        assert (need(choice.profile, "step") <= limit) == (choice.excess <= 1)
    paces = [c.profile.seconds.value / c.profile.case.batch for c in feasible]
    assert paces == sorted(paces)


def test_what_the_store_knows_comes_first_by_accuracy_less_leakage(profiles: list[Profile], tmp_path: Path) -> None:
    for defense, accuracy, ssim in (("none", 0.9, 0.8), ("gaussian(sigma=0.5)", 0.8, 0.2)):
        common = {"model": "lenet5", "cut": "conv2"}
        score = Score("accuracy", "1", accuracy, 1)
        Store(tmp_path).put(outcome(defense, kind="train", attack="", defense=defense, scores=(score,), **common))
        mount(tmp_path, "inversion", (ssim,), defense=defense, **common)
        mount(tmp_path, "black", (0.99,), defense=defense, **common)  # looks at nothing: no leak
    found = choices(profiles, parse("memory=1GB"), Store(tmp_path))
    known = [(c.profile.case.defense, c.profile.case.cut, c.accuracy, c.leakage) for c in found if c.known]
    assert [row[0] for row in known] == ["gaussian(sigma=0.5)"] * 2 + ["none"] * 2
    assert {row[1:] for row in known} == {("conv2", 0.8, 0.2), ("conv2", 0.9, 0.8)}
    assert all(c.known for c in found[:4])


def test_an_impossible_budget_names_the_tightest_limit_and_the_nearest_choice(
    profiles: list[Profile], tmp_path: Path
) -> None:
    budget = parse("step=1ms,memory=1GB")
    found = choices(profiles, budget, Store(tmp_path))
    fastest = min(profiles, key=lambda p: p.seconds.value)
    assert found[0].profile is fastest
    text = why_none(found[0], budget)
    assert "step=1 ms is the tightest limit" in text
    assert f"cut at {fastest.case.cut}, batch {fastest.case.batch}" in text
    small = parse("memory=10MB,step=60s")
    assert "memory=10.0 MB is the tightest" in why_none(choices(profiles, small, Store(tmp_path))[0], small)


def test_axes_are_checked() -> None:
    with pytest.raises(SplitbenchError) as caught:
        axes_of(["defence=none", "cut", "batch="])
    assert "did you mean 'defense'" in str(caught.value)
    assert "3 mistakes" in str(caught.value)
    with pytest.raises(SplitbenchError, match="did you mean 'seal'"):
        cases(BASE, {"defense": ["sael"]})
    several = cases(
        BASE, axes_of(["model=lenet5@conv1,resnet18@stem", "defense=[none, {seal: {omega: 0.5}}, [gaussian, nopeek]]"])
    )
    assert [(c.model.name, c.cut) for c in several[::3]] == [("lenet5", "conv1"), ("resnet18", "stem")]
    assert [c.defense for c in several[:3]] == ["none", "seal(omega=0.5)", "gaussian(sigma=0.5) + nopeek(weight=0.1)"]
    assert len(cases(BASE, axes_of(["cut=all"]))) == 10
