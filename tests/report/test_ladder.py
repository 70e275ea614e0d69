"""Who knows more of a defense must not recover less; a table says where it is otherwise, and never mixes rungs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from splitbench.report.tables import render
from splitbench.report.tables.table import Table, table
from tests.report._mounted import mount


def one(store: Path, **asked: object) -> Table:
    [made] = table(store=store, **asked)  # type: ignore[arg-type]
    return made


def ladder(store: Path, none: float, family: float, exact: float, **changes: object) -> None:
    for rung, value in (("none", none), ("family", family), ("exact", exact)):
        mount(store, "inversion", (value, value), rung, **changes)  # type: ignore[arg-type]


def flagged(made: Table) -> set[tuple[str, str]]:
    return {place for place, entry in made.entries.items() if entry.ladder}


def test_each_rung_is_a_column_of_its_own(tmp_path: Path) -> None:
    ladder(tmp_path, 0.2, 0.4, 0.6)
    made = one(tmp_path)
    assert made.columns == ("inversion", "inversion · family", "inversion · exact", "worst case")
    assert [made.entry("noise", column).mean for column in made.columns[:3]] == pytest.approx([0.2, 0.4, 0.6])
    assert not flagged(made)


@pytest.mark.parametrize(("rows", "columns"), [("knowledge", "attack"), ("defense", "knowledge")])
def test_knowledge_can_be_an_axis_in_the_order_of_the_ladder(tmp_path: Path, rows: str, columns: str) -> None:
    ladder(tmp_path, 0.2, 0.6, 0.4)
    made = one(tmp_path, rows=rows, columns=columns)
    assert (made.rows if rows == "knowledge" else made.columns) == ("none", "family", "exact")
    assert "worst case" not in (*made.rows, *made.columns)
    assert flagged(made) == {("exact", "inversion") if rows == "knowledge" else ("noise", "exact")}


@pytest.mark.parametrize("axes", [("defense", "dataset"), ("dataset", "cut"), ("seed", "defense"), ("attack", "cut")])
def test_no_cell_mixes_attacks_defenses_or_rungs_whatever_the_axes(tmp_path: Path, axes: tuple[str, str]) -> None:
    for defense in ("noise", "other"):
        ladder(tmp_path, 0.2, 0.4, 0.6, defense=defense)
        mount(tmp_path, "unsplit", (0.1, 0.3), defense=defense)
    tables = table(store=tmp_path, rows=axes[0], columns=axes[1])
    values = [e for t in tables for (row, _), e in t.entries.items() if row != "worst case"]
    assert len(values) == 8
    assert all(len(e.keys) == 1 for e in values)


def test_the_undefended_twin_stands_at_every_rung_its_attack_was_given(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.9, 0.9), defense="none")
    mount(tmp_path, "inversion", (0.3, 0.3), "exact")
    made = one(tmp_path)
    assert made.columns == ("inversion · exact",)
    assert made.entry("none", "inversion · exact").mean == pytest.approx(0.9)
    mount(tmp_path, "inversion", (0.2, 0.2), "none")
    mount(tmp_path, "inversion", (0.8, 0.8), "exact", defense="none")
    made = one(tmp_path)
    assert made.entry("none", "inversion").mean == pytest.approx(0.9)
    assert made.entry("none", "inversion · exact").mean == pytest.approx(0.8), "mounted there itself"


def test_accuracy_stands_beside_every_rung(tmp_path: Path) -> None:
    ladder(tmp_path, 0.2, 0.4, 0.6)
    mount(tmp_path, "", (0.7,), kind="train", metric="accuracy", samples=(), cell={"run": {}}, run="noise-0", twin="")
    assert one(tmp_path).entry("noise", "accuracy").seeds == 1
    made = one(tmp_path, rows="knowledge")
    assert made.rows == ("none", "family", "exact")
    assert [made.entry(rung, "accuracy").mean for rung in made.rows] == [pytest.approx(0.7)] * 3


def test_a_fall_is_marked_where_more_is_known_and_told_in_full(tmp_path: Path) -> None:
    ladder(tmp_path, 0.5, 0.3, 0.45)
    made = one(tmp_path)
    assert flagged(made) == {("noise", "inversion · family"), ("noise", "inversion · exact")}
    assert made.entry("noise", "inversion · family").text().startswith("0.300† ")
    [note] = [n for n in made.notes if "inversion · family: not monotone" in n]
    for words in ("not monotone in knowledge", "inversion on noise", "0.300 with knowledge=family",
                  "0.500 with knowledge=none", "badly built"):  # fmt: skip
        assert words in note


def test_the_sentence_names_the_lower_rung_that_leaks_most(tmp_path: Path) -> None:
    ladder(tmp_path, 0.3, 0.5, 0.2)
    made = one(tmp_path)
    assert "0.500 with knowledge=family" in made.entry("noise", "inversion · exact").ladder


@pytest.mark.parametrize(("exact", "marked"), [(0.48, False), (0.47, True), (0.7, False)])
def test_a_small_fall_is_none(tmp_path: Path, exact: float, marked: bool) -> None:
    ladder(tmp_path, 0.5, 0.5, exact)
    assert bool(flagged(one(tmp_path))) is marked


@pytest.mark.parametrize(
    ("metric", "none", "exact", "marked"),
    [
        ("mse", 0.05, 0.08, True), ("mse", 0.05, 0.01, False), ("mse", 0.05, 0.053, False),
        ("psnr", 20.0, 18.0, True), ("psnr", 20.0, 25.0, False), ("psnr", 20.0, 19.7, False),
    ],
)  # fmt: skip
def test_up_is_where_the_metric_says(tmp_path: Path, metric: str, none: float, exact: float, marked: bool) -> None:
    ladder(tmp_path, none, none, exact, metric=metric)
    assert bool(flagged(one(tmp_path, metric=metric))) is marked


def test_seeds_are_compared_by_their_means(tmp_path: Path) -> None:
    for seed, (none, exact) in enumerate([(0.5, 0.3), (0.3, 0.5), (0.4, 0.4)]):
        mount(tmp_path, "inversion", (none,), seed=seed)
        mount(tmp_path, "inversion", (exact,), "exact", seed=seed)
    assert not flagged(one(tmp_path))
    mount(tmp_path, "inversion", (0.1,), "exact", seed=1)
    entry = one(tmp_path).entry("noise", "inversion · exact")
    assert "0.267 with knowledge=exact and 0.400 with knowledge=none (means of 3 seeds)" in entry.ladder


def test_only_what_differs_in_nothing_else_is_compared(tmp_path: Path) -> None:
    mount(tmp_path, "inversion", (0.5,), auxiliary=100)
    mount(tmp_path, "inversion", (0.1,), "exact", auxiliary=10)
    mount(tmp_path, "unsplit", (0.1,), "exact", auxiliary=100)
    mount(tmp_path, "inversion", (0.1,), "exact", auxiliary=100, defense="other")
    mount(tmp_path, "inversion", (0.1,), "exact", auxiliary=100, seed=1)
    assert not flagged(one(tmp_path))


def test_a_fall_shows_though_the_lower_rung_does_not(tmp_path: Path) -> None:
    ladder(tmp_path, 0.5, 0.5, 0.3)
    made = one(tmp_path, where={"knowledge": "exact"})
    assert made.columns == ("inversion · exact",)
    assert flagged(made) == {("noise", "inversion · exact")}


def test_every_format_tells_of_a_fall(tmp_path: Path) -> None:
    ladder(tmp_path, 0.5, 0.5, 0.3)
    made = one(tmp_path)
    markdown, latex = render.markdown(made), render.latex(made)
    assert "0.300†" in markdown
    assert "- † noise × inversion · exact: not monotone in knowledge" in markdown
    assert r"0.300$\dagger$" in latex
    assert "not monotone in knowledge" in latex
    assert "†" not in latex
    rows = {row["column"]: row for row in csv.DictReader(io.StringIO(render.comma_separated(made)))}
    assert rows["inversion · exact"]["not_monotone"].startswith("not monotone in knowledge")
    assert rows["inversion"]["not_monotone"] == ""
    entries = {entry["column"]: entry for entry in render.data(made)["entries"]}
    assert entries["inversion · exact"]["not_monotone"].startswith("not monotone in knowledge")
    assert entries["inversion"]["not_monotone"] == ""
