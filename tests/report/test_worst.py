"""The worst case is the maximum over attacks image by image, over attacks that look, on the same images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from splitbench.report.statistics.worst import looking, worst
from splitbench.report.tables import render
from splitbench.report.tables.table import Table, table
from splitbench.store.outcome import Score
from splitbench.store.store import Store
from tests.report._mounted import mount
from tests.runner.test_store import outcome


def one(store: Path, **asked: object) -> Table:
    [made] = table(store=store, **asked)  # type: ignore[arg-type]
    return made


scored = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(values=scored)
@pytest.mark.parametrize(("metric", "most"), [("ssim", max), ("mse", min)])
def test_it_is_the_most_any_attack_leaks_of_each_image(metric: str, most: object, values: list[list[float]]) -> None:
    n = len(values[0])
    rows = [
        outcome(
            str(i),
            attack=f"a{i}",
            samples=tuple(range(n)),
            scores=(Score(metric, "1", 0, n, tuple(v), "clamp", leaks_when="high" if most is max else "low"),),
        )
        for i, v in enumerate(values)
    ]
    found = worst(rows, metric)
    assert found.values == tuple(most(column) for column in zip(*values, strict=True))  # type: ignore[operator]
    assert sum(found.won.values()) == n
    assert list(found.won) == [row.attack for row in rows]


def test_it_counts_the_read_out_that_ranks() -> None:
    scores = (Score("ssim", "1", 0.2, 1, (0.2,), "minmax"), Score("ssim", "1", 0.9, 1, (0.9,), "clamp"))
    assert worst([outcome(samples=(0,), scores=scores)], "ssim").values == (0.2,)


def test_a_column_shows_it_with_the_interval_of_other_cells(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.1, 0.8, 0.3))
    mount(tmp_path, "unsplit", (0.5, 0.2, 0.4))
    entry = one(tmp_path).entry("noise", "worst case")
    assert entry.mean == pytest.approx(np.mean([0.5, 0.8, 0.4]))
    assert entry.half == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem([0.5, 0.8, 0.4]))
    assert (entry.n, entry.seeds) == (3, 1)
    assert set(entry.keys) == {"inversion-none-noise-0-9", "unsplit-none-noise-0-9"}
    assert one(tmp_path).columns[-1] == "worst case"
    assert "| worst case |" in render.markdown(one(tmp_path))


def test_several_seeds_give_the_interval_over_their_means(tmp_path: Path) -> None:
    for seed in range(3):
        mount(tmp_path, "inversion", (0.1 * seed, 0.8), seed=seed)
        mount(tmp_path, "unsplit", (0.5, 0.2), seed=seed)
    entry = one(tmp_path).entry("noise", "worst case")
    means = [0.65, 0.65, 0.65]
    assert entry.mean == pytest.approx(np.mean(means))
    mount(tmp_path, "inversion", (0.9, 0.8), seed=2)
    entry = one(tmp_path).entry("noise", "worst case")
    assert entry.half == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem([0.65, 0.65, 0.85]))
    assert (entry.n, entry.seeds) == (6, 3)


def test_rows_of_attacks_have_a_row_of_it(tmp_path: Path) -> None:
    for defense in ("noise", "other"):
        mount(tmp_path, "inversion", (0.1, 0.8), defense=defense)
        mount(tmp_path, "unsplit", (0.5, 0.2), defense=defense)
    made = one(tmp_path, rows="attack", columns="defense")
    assert made.rows == ("inversion", "unsplit", "worst case")
    assert made.entry("worst case", "other").mean == pytest.approx(0.65)


def test_it_is_not_shown_for_one_attack_nor_where_attacks_are_no_axis(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.1, 0.8))
    assert one(tmp_path).columns == ("inversion",)
    mount(tmp_path, "unsplit", (0.5, 0.2))
    tables = table(store=tmp_path, rows="defense", columns="cut")
    assert [t.columns for t in tables] == [("c",), ("c",)]


def test_floors_and_bounds_never_count(tmp_path: Path) -> None:
    for name in ("black", "mean_image", "class_mean", "nearest_auxiliary", "oracle_decoder"):
        mount(tmp_path, name, (1.0, 1.0))
    mount(tmp_path, "inversion", (0.1, 0.8))
    assert "worst case" not in one(tmp_path).columns
    mount(tmp_path, "unsplit(steps=5)", (0.5, 0.2))
    assert one(tmp_path).entry("noise", "worst case").mean == pytest.approx(0.65)
    assert {o.attack for o in looking(Store(tmp_path).outcomes()[0])} == {"inversion", "unsplit(steps=5)"}


def test_every_rung_of_knowledge_counts(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.1, 0.8))
    mount(tmp_path, "inversion", (0.6, 0.3), "exact")
    assert one(tmp_path).entry("noise", "worst case").mean == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"samples": (7, 8)}, "scored on other images"),
        ({"status": "failed", "reason": "nan"}, "failed"),
        ({"metric": "lpips"}, "no ssim for each image"),
    ],
)
def test_what_cannot_be_compared_is_left_out_and_named(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    mount(tmp_path, "inversion", (0.1, 0.8))
    mount(tmp_path, "unsplit", (0.5, 0.2))
    mount(tmp_path, "third", (1.0, 1.0), **changes)  # type: ignore[arg-type]
    made = one(tmp_path)
    assert made.entry("noise", "worst case").mean == pytest.approx(0.65)
    assert f"noise × worst case: leaves out third ({why})" in made.notes
    [entry] = [e for e in render.data(made)["entries"] if e["column"] == "worst case"]
    assert entry["note"] == f"leaves out third ({why})"


def test_what_was_not_mounted_on_a_run_is_named_too(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.1, 0.8))
    mount(tmp_path, "unsplit", (0.5, 0.2))
    mount(tmp_path, "inversion", (0.1, 0.8), seed=1)
    mount(tmp_path, "inversion", (0.1, 0.8), defense="other")
    notes = one(tmp_path).notes
    assert "noise × worst case: leaves out unsplit at seed 1 (not run)" in notes
    assert "other × worst case: leaves out unsplit (not run)" in notes


def test_no_attack_left_is_no_value(tmp_path: Path) -> None:
    for name in ("inversion", "unsplit"):
        mount(tmp_path, name, (), status="failed", reason="nan")
    assert one(tmp_path).entry("noise", "worst case").text() == "unscored"


def test_it_says_nothing_where_no_attack_is_calibrated(tmp_path: Path) -> None:
    for name in ("inversion", "unsplit"):
        mount(tmp_path, name, (0.2, 0.2), defense="none", bar=0.7)
        mount(tmp_path, name, (0.1, 0.1), bar=0.7)
    assert one(tmp_path).entry("noise", "worst case").text().startswith("0.100?")
    mount(tmp_path, "unsplit", (0.9, 0.9), defense="none", bar=0.7)
    assert one(tmp_path).entry("noise", "worst case").text().startswith("0.100 ")
