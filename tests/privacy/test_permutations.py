"""The counts of equations 7 and 8 are those of orders counted one by one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import permutations, product

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.privacy import permutations as counts
from splitbench.privacy.permutations import Account
from tests.conftest import Command

# (patches, batch, k): at most a few ten thousand orders.
SMALL = [(2, 1, 0.5), (3, 2, 0.4), (3, 2, 0.7), (4, 2, 0.75), (3, 3, 0.7), (4, 1, 0.3), (5, 1, 0.4), (3, 2, 0.1)]

Arrangement = tuple[tuple[tuple[int, int], ...], ...]


def orders(patches: int, batch: int, stay: int) -> Iterator[Arrangement]:
    """Every outcome of algorithm 2: for each image its kept patches in order, then those dealt to it from the pool."""
    for kept in product(permutations(range(patches), stay), repeat=batch):
        pool = [(image, patch) for image in range(batch) for patch in range(patches) if patch not in kept[image]]
        share = patches - stay
        for dealt in permutations(pool):
            yield tuple(
                (*((image, patch) for patch in kept[image]), *dealt[image * share : (image + 1) * share])
                for image in range(batch)
            )


@pytest.mark.parametrize(("patches", "batch", "k"), SMALL)
def test_equations_7_and_8_count_what_algorithm_2_can_do(patches: int, batch: int, k: float) -> None:
    stay = counts.kept(patches, k)
    every = list(orders(patches, batch, stay))
    assert len(set(every)) == len(every), "each order is counted once"
    right = tuple((0, patch) for patch in range(patches))
    containing = sum(order[0] == right for order in every)
    assert 10 ** counts.batch(patches, batch, k) == pytest.approx(len(every))
    assert 10 ** counts.containing_target(patches, batch, k) == pytest.approx(containing)
    assert 10 ** counts.share(patches, batch, k) == pytest.approx(containing / len(every))


@pytest.mark.parametrize("patches", [1, 2, 5, 16, 64, 196])
def test_orders_of_one_image_are_its_factorial(patches: int) -> None:
    assert counts.log10_permutations(patches) == pytest.approx(math.log10(math.factorial(patches)), abs=1e-9)


def test_the_equations_at_the_papers_size_are_those_of_whole_numbers() -> None:
    stay, leave = 78, 118
    seven = (math.comb(196, stay) * math.factorial(stay)) ** 50 * math.factorial(50 * leave)
    eight = (math.comb(196, stay) * math.factorial(stay)) ** 49 * math.factorial(49 * leave)
    found = Account.of(196, 50, 0.4)
    assert found.kept == stay
    assert found.equation_7 == pytest.approx(math.log10(seven), rel=1e-12)
    assert found.equation_8 == pytest.approx(math.log10(eight), rel=1e-12)
    assert found.more_permutations
    assert found.smaller_share


@pytest.mark.parametrize("patches", [4, 16, 196])
def test_a_batch_of_one_gains_nothing(patches: int) -> None:
    alone = Account.of(patches, 1, 0.4)
    assert alone.equation_7 == pytest.approx(alone.permutations)
    assert not alone.more_permutations
    assert not alone.smaller_share


def test_a_solver_compares_each_two_patches_side_by_side_and_one_below_the_other() -> None:
    pairs = [(i, j, side) for i in range(6) for j in range(6) for side in ("right", "below") if i != j]
    assert counts.comparisons(6) == len(pairs)
    assert counts.comparisons(3, 2) == len(pairs)


@pytest.mark.parametrize(("patches", "k", "stay"), [(100, 0.29, 29), (196, 0.4, 78), (64, 0.75, 48), (10, 0.3, 3)])
def test_the_floor_is_that_of_the_number_as_it_is_written(patches: int, k: float, stay: int) -> None:
    assert counts.kept(patches, k) == stay


@pytest.mark.parametrize("k", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_share_outside_of_0_and_1_is_a_mistake(k: float, splitbench: Command) -> None:
    with pytest.raises(SplitbenchError, match="between 0 and 1"):
        counts.batch(16, 4, k)
    said = splitbench("account", "permutations", "--k", str(k))
    assert said.code == 2
    assert "expected a share between 0 and 1" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("option", ["--patches", "--batch"])
def test_fewer_than_one_is_a_mistake(option: str, splitbench: Command) -> None:
    said = splitbench("account", "permutations", option, "0")
    assert said.code == 2
    assert "expected at least 1, got 0" in said.err


def test_the_command_prints_what_the_functions_count(splitbench: Command) -> None:
    options = ("account", "permutations", "--patches", "196", "--batch", "50", "--k", "0.4")
    printed = json.loads(splitbench(*options, "--json").out)
    assert printed["permutations"] == pytest.approx(counts.log10_permutations(196))
    assert printed["share"] == pytest.approx(printed["equation_8"] - printed["equation_7"])
    assert printed["comparisons"] == 2 * 196 * 195
    assert printed["smaller_share"]
    text = splitbench(*options).out
    assert "10^365.7" in text
    assert "76,440" in text
