"""Labels and membership go through tables, claims, the checklist, diffs and the page as inputs do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from splitbench.plan.paper import read
from splitbench.report.checklist import checklist
from splitbench.report.claims.judge import judge
from splitbench.report.page.page import report
from splitbench.report.statistics import measured
from splitbench.report.statistics.worst import worst
from splitbench.report.tables import render
from splitbench.report.tables.table import Table, table
from splitbench.runner.verdict import Verdict
from splitbench.store.outcome import Score
from tests.conftest import Command
from tests.report._rows import SAMPLES, Rows, values

LABELS = {"goal": "labels", "party": "client0"}
MEMBERS = {"goal": "membership"}
N = len(SAMPLES)


def right(share: float) -> tuple[float, ...]:
    """So many answers are right."""
    return tuple(float(i < round(share * N)) for i in range(N))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Three goals on one defense and where nothing defends, each with two attacks and a floor."""
    made = Rows(tmp_path)
    for defense, leak in (("none", 0.9), ("gaussian", 0.3)):
        made.train(0.8, defense=defense, costs={"chance": 0.1, "bytes_up": 5e6})
        made.attack("mean_image", 0.1, defense=defense)
        made.attack("fora", leak, bar=0.7, defense=defense)
        made.attack("sdar", leak - 0.1, defense=defense)
        made.attack("majority", right(0.25), defense=defense, **LABELS)
        made.attack("norms", right(leak), bar=0.5, defense=defense, **LABELS)
        made.attack("directions", right(leak - 0.1)[::-1], defense=defense, **LABELS)
        made.attack("coin", [0.5] * N, defense=defense, **MEMBERS)
        made.attack("losses", [0.5 + leak / 2] * N, bar=0.6, defense=defense, **MEMBERS)
        made.attack("shadows", [0.55] * N, bar=0.6, defense=defense, **MEMBERS)
    made.plan("goals")
    return made


def by_goal(store: Path, **asked: object) -> dict[str, Table]:
    return {t.goal: t for t in table("goals", store=store, **asked)}  # type: ignore[arg-type]


def test_each_goal_has_a_table_with_its_own_metric_and_the_task_in_each(rows: Rows) -> None:
    made = by_goal(rows.store.path)
    assert {goal: t.metric for goal, t in made.items()} == {"inputs": "ssim", "labels": "accuracy", "membership": "auc"}
    assert made["inputs"].columns == ("accuracy", "mean_image", "fora", "sdar", "worst case")
    assert made["labels"].columns[1:3] == ("majority by client0", "norms by client0")
    for t in made.values():
        assert t.entry("gaussian", "accuracy").mean == 0.8
    assert made["labels"].entry("none", "norms by client0").mean == pytest.approx(np.mean(right(0.9)))
    assert made["membership"].entry("gaussian", "losses").mean == pytest.approx(0.65)
    assert "recovering membership in the training set" in made["membership"].caption
    assert "recovering" not in made["inputs"].caption
    assert "24 samples" in made["labels"].caption
    assert set(by_goal(rows.store.path, metric="auc")) == {"membership"}, "a metric of one goal says nothing of another"


def test_the_worst_case_of_labels_is_sample_by_sample_and_of_membership_the_best_as_a_whole(rows: Rows) -> None:
    made = by_goal(rows.store.path)
    best = np.maximum(right(0.9), right(0.8)[::-1])
    assert made["labels"].entry("none", "worst case").mean == pytest.approx(best.mean())
    assert made["membership"].entry("none", "worst case").mean == pytest.approx(0.95)
    mounted = [o for o in rows.store.outcomes()[0] if o.goal == "membership" and o.role == "attack"]
    found = worst([o for o in mounted if o.defense == "none"])
    assert (found.values, found.whole, found.who()) == ((), pytest.approx(0.95), "the best attack as a whole, losses")
    assert len(found.keys) == 2


def test_bars_are_in_the_metric_of_the_goal(rows: Rows) -> None:
    made = by_goal(rows.store.path)
    assert made["membership"].entry("gaussian", "shadows").text().startswith("0.550?")
    [note] = [n for n in made["membership"].notes if n.startswith("gaussian × shadows")]
    assert "undefended, shadows reaches auc 0.550; its bar is 0.6" in note
    assert not made["membership"].entry("gaussian", "losses").doubt
    assert not made["labels"].entry("gaussian", "norms by client0").doubt


def test_who_attacks_and_what_can_be_axes(rows: Rows) -> None:
    [made] = table(store=rows.store.path, rows="goal", columns="defense", where={"attack": "losses"})
    assert (made.rows, made.metric) == (("membership",), "auc")
    made_by = {t.goal: t for t in table(store=rows.store.path, rows="attack", columns="party")}
    assert made_by["labels"].columns == ("client0",)
    assert "norms" in made_by["labels"].rows, "who attacks is told by the column, not by the name"


@pytest.mark.parametrize(
    ("metric", "attack", "goal", "verdict"),
    [
        ("auc", "losses", "membership", "not separable"),  # one pooled value: nobody knows how sure it is
        ("accuracy", "norms", "labels", "holds"),
        ("ssim", "fora", "inputs", "holds"),
    ],
)
def test_claims_are_judged_in_any_goal(rows: Rows, metric: str, attack: str, goal: str, verdict: str) -> None:
    left = {"defense": "gaussian", "attack": attack, "goal": goal, "metric": metric}
    claim = {"id": "c", "says": "s", "section": "1", "compare": {"left": left, "is": "below", "right": "twin"}}
    outcomes = rows.store.outcomes()[0]
    [scored] = judge(read({"claims": [claim]}, "r", ""), measured.Rows(outcomes, outcomes))
    assert scored.verdict == verdict
    value = scored.judged[0].difference
    assert value is not None
    assert value.left < value.right


def test_the_page_has_every_goal_with_its_floor_and_its_verdict(rows: Rows) -> None:
    html = report(rows.store.path).html
    for said in ("recovering the labels", "recovering membership in the training set", "leakage in AUC",
                 "leakage in accuracy", "leakage in SSIM"):  # fmt: skip
        assert said in html, said
    assert "gaussian (labels)" in html
    assert html.count('<abbr title="uncalibrated">?</abbr>') == 0


def test_the_checklist_tells_each_goal_in_its_metric(rows: Rows) -> None:
    run = next(o.run for o in rows.store.outcomes()[0] if o.defense == "gaussian")
    text = checklist(run, store=rows.store.path).markdown()
    assert "; ssim of fora 0.300, sdar 0.200; auc of losses 0.650" in text
    assert "accuracy of directions by client0 0.208, norms by client0 0.292" in text
    assert "the best attack as a whole, losses" in text
    assert "accuracy 0.800 undefended; the commonest label gives 0.100" in text


def test_every_command_takes_them(splitbench: Command, rows: Rows, tmp_path: Path) -> None:
    store = rows.store.path
    runs = sorted({o.run for o in rows.store.outcomes()[0]})
    for arguments in (
        ("table", "goals"), ("table", "--json"), ("table", "goals", "--metric", "accuracy", "--format", "csv"),
        ("report", "--output", tmp_path / "page.html"), ("diff", *runs), ("checklist", runs[0]),
    ):  # fmt: skip
        said = splitbench(*map(str, arguments), "--store", store)
        assert said.code == 0, (arguments, said.err)


@pytest.mark.parametrize("modality", ["text", "tabular"])
def test_texts_and_tables_have_no_pictures_and_rank_by_their_own_metric(tmp_path: Path, modality: str) -> None:
    made = Rows(tmp_path)
    for defense, leak in (("none", 0.9), ("gaussian", 0.2)):
        made.train(0.8, defense=defense, modality=modality)
        made.attack("prior", 0.1, defense=defense, modality=modality, role="floor")
        made.attack("inversion", leak, bar=0.5, defense=defense, modality=modality)
    [one] = table(store=tmp_path)
    assert one.metric == {"text": "token_accuracy", "tabular": "field_accuracy"}[modality]
    assert f"24 {'texts' if modality == 'text' else 'rows'}" in one.caption
    page = report(tmp_path)
    assert page.pictures == 0
    assert "gaussian holds" in page.html


def test_scores_of_mixtures_rank_on_members_and_have_both_in_the_data(tmp_path: Path) -> None:
    made = Rows(tmp_path)
    each, whole = values(0.3), values(0.7)
    scores = (
        Score("ssim", "wang2004", 0.7, N, whole, "clamp", "mixture"),
        Score("ssim", "wang2004", 0.3, N, each, "clamp", "member"),
    )
    made.attack("fora", 0.3, scores=scores)
    made.attack("sdar", 0.5, scores=scores)
    [one] = table(store=tmp_path)
    assert one.entry("none", "fora").mean == pytest.approx(0.3)
    assert "of mixed messages, against each member" in one.caption
    [entry, *_] = render.data(one)["entries"]
    assert (entry["against"], entry["mixture"]) == ("member", pytest.approx(0.7))
    assert "member,0.7" in render.comma_separated(one)
    assert json.dumps(render.data(one), allow_nan=False)


def test_an_attack_that_guessing_equals_undefended_shows_nothing() -> None:
    assert Verdict(0.1, 0.4, 0.5).verdict == "uncalibrated"
    assert Verdict(0.1, 0.6, 0.5).verdict == "hides"
    assert Verdict(0.1, 0.6, None).verdict == "hides"


def test_the_verdict_counts_beyond_the_floor_in_either_direction() -> None:
    assert Verdict(0.56, 0.9, 0.5, 0.6, "auc").verdict == "hides"
    assert Verdict(0.75, 0.9, 0.5, 0.6, "auc").verdict == "leaks"
    assert Verdict(0.5, 0.55, 0.5, 0.6, "auc").verdict == "uncalibrated"
    low = {"metric": "mse", "leaks_when": "low"}
    assert Verdict(0.02, 0.01, 0.1, 0.05, **low).verdict == "leaks"
    assert Verdict(0.09, 0.01, 0.1, 0.05, **low).verdict == "hides"
    assert Verdict(0.09, 0.08, 0.1, 0.05, **low).verdict == "uncalibrated", "an error above its bar is no success"
