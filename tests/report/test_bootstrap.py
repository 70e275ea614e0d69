"""The bootstrap against slower ways that are surely right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.report.statistics import bootstrap
from splitbench.report.statistics.bootstrap import Difference, difference
from splitbench.report.statistics.measured import Measured, Seed


def measured(*seeds: list[float], metric: str = "ssim", dataset: str = "d", first: int = 0) -> Measured:
    found = {}
    for i, values in enumerate(seeds):
        images = tuple(range(first, first + len(values)))
        found[i] = Seed(float(np.mean(values)), len(values), tuple(values), images, f"{values}")
    return Measured(metric, dataset, found)


def share(p: float, n: int, source: str) -> Measured:
    return Measured("accuracy", "d", {0: Seed(p, n, (), (), source)})


def compare(*arguments: object, **more: object) -> Difference:
    found = difference(*arguments, **more)  # type: ignore[arg-type]
    assert isinstance(found, Difference)
    return found


def test_the_interval_is_that_of_a_loop_over_resampled_images() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(40), rng.random(40)
    found = compare([measured(list(a))], [measured(list(b))])
    loop = []
    for _ in range(4000):
        chosen = rng.integers(0, 40, 40)
        loop.append((a[chosen] - b[chosen]).mean())
    low, high = np.percentile(loop, (2.5, 97.5))
    assert found.value == pytest.approx((a - b).mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.015)


def test_seeds_are_resampled_and_then_their_images() -> None:
    rng = np.random.default_rng(2)
    a = [list(rng.normal(mean, 0.05, 30)) for mean in (0.2, 0.5, 0.8, 0.4)]
    found = compare([measured(*a)], 0.0)
    loop = []
    for _ in range(4000):
        seeds = rng.integers(0, 4, 4)
        loop.append(np.mean([np.asarray(a[s])[rng.integers(0, 30, 30)].mean() for s in seeds]))
    spread = np.mean(a) + (np.asarray(loop) - np.mean(a)) * math.sqrt(4 / 3)  # four seeds vary too little by a quarter
    low, high = np.percentile(spread, (2.5, 97.5))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)
    assert (found.seeds, found.n) == (4, 120)


def test_right_and_wrong_answers_need_not_be_known_one_by_one() -> None:
    answers = np.zeros(500)
    answers[:430] = 1
    exact = compare([measured(list(answers), metric="accuracy")], 0.8)
    known = compare([share(0.86, 500, "a")], 0.8)
    assert (known.low, known.high) == pytest.approx((exact.low, exact.high), abs=0.008)


def test_the_same_measurement_differs_from_itself_by_nothing() -> None:
    for same in (measured([0.1, 0.9, 0.4]), share(0.7, 100, "run")):
        found = compare([same], [same])
        assert (found.value, found.low, found.high) == (0, 0, 0)


def test_pairs_tell_what_two_samples_do_not() -> None:
    rng = np.random.default_rng(3)
    hard = rng.random(50)  # images differ much, the two attacks by little
    a, b = measured(list(hard)), measured(list(hard + 0.02 + rng.normal(0, 0.01, 50)))
    assert compare([a], [b]).high < 0
    apart = measured(list(hard + 0.02), dataset="other")
    assert compare([a], [apart]).high > 0


def test_only_common_images_are_compared() -> None:
    a = measured([0.1, 0.2, 0.3, 0.4])
    b = measured([0.2, 0.3, 0.9, 0.9], first=1)
    assert compare([a], [b]).value == pytest.approx((0.2 + 0.3 + 0.4) / 3 - (0.2 + 0.3 + 0.9) / 3)
    assert difference([a], [measured([0.5], first=99)]) == "no sample in common"
    assert difference([a], [Measured("ssim", "d", {7: Seed(0.5, 1, (), (), "")})]) == "no seed in common"


numbers = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@settings(max_examples=50, deadline=None)
@given(numbers, st.randoms())
def test_sides_can_be_swapped_and_the_order_of_questions_does_not_matter(values: list[float], random: object) -> None:
    a, b = measured(values), measured([v * v for v in values])
    one = compare([a], [b])
    bootstrap._weights.cache_clear()
    compare([b], 0.5)
    other = compare([b], [a])
    assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))
    assert one == compare([a], [b])
    assert one.low <= one.value + 1e-9
    assert one.high >= one.value - 1e-9


def test_a_factor_is_of_the_right_side() -> None:
    found = compare([measured([0.1, 0.2])], [measured([0.8, 0.4])], 0.25)
    assert found.value == pytest.approx(0.15 - 0.25 * 0.6)
    assert (found.left, found.right) == pytest.approx((0.15, 0.6))


def test_a_mean_over_several_measurements_is_the_mean_of_their_means() -> None:
    a, b = measured([0.1, 0.3]), measured([0.5, 0.7], dataset="e")
    assert compare([a, b], 0.0).left == pytest.approx(0.4)


def test_the_effect_is_cohens() -> None:
    a, b = [0.1, 0.4, 0.3, 0.8], [0.2, 0.3, 0.6, 0.7]
    d = np.subtract(a, b)
    assert compare([measured(a)], [measured(b)]).effect == pytest.approx(d.mean() / d.std(ddof=1))
    two = compare([measured(a)], [measured(b, dataset="e")]).effect
    assert two == pytest.approx((np.mean(a) - np.mean(b)) / math.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2))
    h = compare([share(0.9, 100, "a")], [share(0.5, 100, "b")]).effect
    assert h == pytest.approx(2 * math.asin(math.sqrt(0.9)) - 2 * math.asin(math.sqrt(0.5)))


def test_a_few_values_are_not_sure() -> None:
    assert not compare([measured([0.3])], 0.1).varies
    assert not compare([measured([0.3], [0.4])], 0.1).varies
    assert not compare([Measured("mcc", "d", {0: Seed(0.3, 90, (), (), "")})], 0.1).varies
    assert compare([measured([0.3, 0.4, 0.2, 0.1], [0.4, 0.1, 0.2, 0.4])], 0.1).varies
    assert compare([share(0.3, 90, "a")], 0.1).varies


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(seeds: int) -> None:
    """With several seeds the images count twice, in the seeds' means and by themselves: never too sure."""
    rng = np.random.default_rng(5)
    covered = 0
    for i in range(100):
        shifts = rng.normal(0, 0.02, seeds) if seeds > 1 else [0.0]
        drawn = [list(rng.normal(0.1 + shift, 0.1, 20)) for shift in shifts]
        found = compare([measured(*drawn, dataset=f"d{i}")], 0.1)
        covered += found.low <= 0 <= found.high
    assert covered >= 91
    assert seeds > 1 or covered < 100
