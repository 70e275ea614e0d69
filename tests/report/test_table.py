"""A table tells what the rows hold: means, intervals, every gap, and nothing mixed."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from splitbench.core.errors import SplitbenchError
from splitbench.report.tables import render
from splitbench.report.tables.table import Table, table
from splitbench.store.outcome import Score
from splitbench.store.store import Store
from tests.report._rows import Rows, values
from tests.runner.test_store import outcome


def put(store: Path, key: str, values: tuple[float, ...] = (), bar: float = 0.0, **changes: object) -> None:
    mean = float(np.mean(values)) if values else 0.0
    scores = (Score("ssim", "wang2004", mean, len(values), values, "clamp"),) if values else ()
    samples, bars = tuple(range(len(values))), (("ssim", bar),) if bar else ()
    Store(store).put(outcome(key, **{"scores": scores, "samples": samples, "twin": key, "bars": bars, **changes}))


def one(store: Path, **asked: object) -> Table:
    [made] = table(store=store, **asked)  # type: ignore[arg-type]
    return made


def test_the_interval_of_one_seed_is_the_t_interval_over_images(tmp_path: Path) -> None:
    values = (0.1, 0.4, 0.2, 0.9, 0.3)
    put(tmp_path, "a", values)
    entry = one(tmp_path).entry("none", "black")
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert entry.mean == pytest.approx(np.mean(values))
    assert entry.half == pytest.approx((high - low) / 2)
    assert "5 images, one seed" in one(tmp_path).caption


def test_the_interval_of_several_seeds_is_over_their_means(tmp_path: Path) -> None:
    means = []
    for seed in range(3):
        values = tuple(np.random.default_rng(seed).random(4))
        means.append(np.mean(values))
        put(tmp_path, f"s{seed}", values, seed=seed)
    entry = one(tmp_path).entry("none", "black")
    assert entry.half == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(means))
    assert (entry.seeds, entry.n) == (3, 12)


def test_a_single_value_has_no_interval(tmp_path: Path) -> None:
    put(tmp_path, "a", (0.5,))
    assert one(tmp_path).entry("none", "black").text() == "0.500"


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_a_missing_seed_breaks_the_mean_and_says_why(tmp_path: Path, status: str) -> None:
    put(tmp_path, "a", (0.5, 0.6), seed=0)
    put(tmp_path, "b", seed=1, status=status, reason="the loss became nan")
    made = one(tmp_path)
    assert made.entry("none", "black").mean is None
    assert made.entry("none", "black").text() == status
    assert f"none × black: {status}: the loss became nan" in made.notes


def test_scales_and_data_sets_are_never_mixed(tmp_path: Path) -> None:
    put(tmp_path, "a", (0.1, 0.2), scale="smoke")
    put(tmp_path, "b", (0.5, 0.6), scale="desk")
    put(tmp_path, "c", (0.8, 0.9), scale="desk", dataset="other")
    tables = table(store=tmp_path)
    assert sorted(t.entry("none", "black").mean for t in tables) == pytest.approx([0.15, 0.55, 0.85])  # type: ignore[type-var]


def test_an_attack_that_fails_undefended_is_marked(tmp_path: Path) -> None:
    put(tmp_path, "twin", (0.2, 0.3), bar=0.7)
    put(tmp_path, "a", (0.1, 0.2), defense="noise", twin="twin", bar=0.7)
    put(tmp_path, "good", (0.8, 0.9), attack="strong", bar=0.7)
    put(tmp_path, "b", (0.1, 0.3), defense="noise", attack="strong", twin="good", bar=0.7)
    made = one(tmp_path)
    assert made.entry("noise", "black").text().startswith("0.150?")
    assert made.entry("noise", "strong").text().startswith("0.200 ")
    [note] = [n for n in made.notes if n.startswith("noise")]
    assert "uncalibrated: undefended, black reaches ssim 0.250; its bar is 0.7" in note


def test_conditions_choose_rows_and_nothing_left_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "a", (0.1, 0.2))
    put(tmp_path, "b", (0.5, 0.6), defense="noise")
    assert one(tmp_path, where={"defense": "noise"}).rows == ("noise",)
    with pytest.raises(SplitbenchError, match="nothing to show"):
        table(store=tmp_path, where={"defense": "magic"})
    with pytest.raises(SplitbenchError, match="did you mean 'attack'"):
        table(store=tmp_path, columns="atack")


def test_a_recipe_shows_its_own_cells_in_its_own_order_and_counts_what_is_missing(tmp_path: Path) -> None:
    put(tmp_path, "a", (0.1, 0.2), created=2.0)
    put(tmp_path, "b", (0.5, 0.6), defense="noise", created=1.0)
    put(tmp_path, "foreign", (0.9, 0.9), defense="other")
    plan = {"title": "T", "table": {"metric": "ssim"}, "cells": ["a", "b", "c"]}
    Store(tmp_path).put_plan("paper/table1", "desk", plan)
    with pytest.raises(SplitbenchError, match="at scale desk, not smoke"):
        table("paper/table1", store=tmp_path, scale="smoke")
    [made] = table("paper/table1", store=tmp_path)
    assert made.rows == ("none", "noise")
    assert made.title == "T"
    assert "1 of 3 cells are not run yet" in made.notes


def test_a_damaged_file_is_named_beside_the_rest(tmp_path: Path) -> None:
    put(tmp_path, "a", (0.1, 0.2))
    (tmp_path / "outcomes" / "broken.parquet").write_bytes(b"PAR1")
    assert any(note.startswith("broken.parquet cannot be read") for note in one(tmp_path).notes)


def odd(tmp_path: Path) -> Table:
    put(tmp_path, "a", (0.1, 0.2), defense="a|b_50% & {x}")
    return one(tmp_path)


def test_markdown_keeps_its_columns_whatever_the_names(tmp_path: Path) -> None:
    lines = render.markdown(odd(tmp_path)).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in rows}) == 1


def test_latex_escapes_what_tex_would_read(tmp_path: Path) -> None:
    text = render.latex(odd(tmp_path))
    assert r"a$|$b\_50\% \& \{x\}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1
    assert "±" not in text


def test_csv_and_json_lead_back_to_the_outcomes(tmp_path: Path) -> None:
    made = odd(tmp_path)
    [row] = csv.DictReader(io.StringIO(render.comma_separated(made)))
    assert row["outcomes"] == "a"
    assert float(row["mean"]) == pytest.approx(0.15)
    [entry] = render.data(made)["entries"]
    assert entry["outcomes"] == ["a"]


def test_the_same_store_gives_the_same_bytes(tmp_path: Path) -> None:
    for i in range(5):
        put(tmp_path, f"k{i}", (0.1 * i, 0.2), defense=f"d{i}")
    assert render.markdown(one(tmp_path)) == render.markdown(one(tmp_path))


def test_the_best_of_a_column_is_told_only_where_it_can_be_told(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for seed, (defense, leaks) in enumerate((("none", 0.95), ("gaussian", 0.5), ("seal", 0.2), ("dcor", 0.2001))):
        rows.attack("fora", values(leaks, seed), defense=defense)
        rows.attack("sdar", leaks if defense != "dcor" else 0.9, defense=defense)
        rows.attack("mean_image", 0.1, defense=defense)
    made = one(tmp_path)
    assert [made.entry(row, "fora").mark for row in ("none", "gaussian", "seal", "dcor")] == ["", "", "tie", "tie"]
    assert [made.entry(row, "sdar").mark for row in ("none", "gaussian", "seal", "dcor")] == ["", "", "best", ""]
    assert not any(made.entry(row, "mean_image").mark for row in made.rows), "who looks at nothing tells them not apart"
    assert "bold: the best defense" in made.caption
    assert any(note.startswith("= not separable") for note in made.notes)
    assert "**0.200" in render.markdown(made)


def test_of_attacks_the_one_that_recovers_most_is_best_and_bounds_do_not_compete(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for attack, leaks in (("oracle_decoder", 0.99), ("fora", 0.8), ("sdar", 0.5), ("mean_image", 0.1)):
        rows.attack(attack, leaks)
    made = one(tmp_path, rows="attack", columns="dataset")
    assert {row: e.mark for (row, _), e in made.entries.items() if e.mark} == {"fora": "best"}


def test_an_older_version_of_an_attack_is_left_out_and_said(tmp_path: Path) -> None:
    cell = {"run": {"seed": 0}, "attack": {"name": "black", "version": 1}}
    put(tmp_path, "old", (0.1, 0.2), cell=cell)
    put(tmp_path, "new", (0.5, 0.6), cell={**cell, "attack": {"name": "black", "version": 2}})
    made = one(tmp_path)
    assert made.entry("none", "black").mean == pytest.approx(0.55)
    assert "none × black: leaves out 1 row of an older version of the attack or the defense" in made.notes


def test_rows_that_differ_in_more_than_their_seed_are_not_averaged(tmp_path: Path) -> None:
    for seed, epochs in enumerate((12, 12, 13)):
        put(tmp_path, f"s{seed}", (0.1, 0.2), seed=seed, cell={"run": {"seed": seed, "training": {"epochs": epochs}}})
    made = one(tmp_path)
    assert made.entry("none", "black").text() == "ambiguous"
    assert "none × black: ambiguous: 3 rows that differ in run.training.epochs" in made.notes
