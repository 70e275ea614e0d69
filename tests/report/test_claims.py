"""A claim is judged on our rows: holds, fails, not separable, uncalibrated, not run, with the numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splitbench.plan.claim import read
from splitbench.plan.paper import Paper, load
from splitbench.report.claims.judge import Scored, claims, judge
from splitbench.report.claims.scorecard import scorecard, told
from splitbench.report.statistics.measured import Rows as Found
from tests.conftest import Command
from tests.report._rows import Rows, values

SEAL = {"defense": "seal", "settings": {"omega": 0.7}}
PAPER = Paper(where={"defense": "seal"}, names={"attack": {"fsha": "FSHA", "fora": "FORA"}})


def claim(rows: Rows, left: dict[str, Any], **compare: Any) -> Scored:
    block = {"id": "c", "says": "s", "section": "1", "compare": {"left": {"metric": "ssim", **left}, **compare}}
    outcomes, _ = rows.store.outcomes()
    [scored] = judge(replace(PAPER, claims=read([block])), Found(outcomes, outcomes))
    return scored


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def pair(rows: Rows, name: str, undefended: float, defended: float, bar: float = 0.5, **at: Any) -> None:
    rows.attack(name, undefended, bar=bar, **at)
    rows.attack(name, values(defended, 1), bar=bar, **SEAL, **at)


@pytest.mark.parametrize(("defended", "verdict"), [(0.1, "holds"), (0.5, "fails"), (0.225, "not separable")])
def test_a_quarter_of_the_undefended(rows: Rows, defended: float, verdict: str) -> None:
    pair(rows, "fsha", 0.9, defended)
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "factor": 0.25, "right": "twin"})
    assert scored.verdict == verdict
    d = scored.judged[0].difference
    assert d is not None
    assert (d.left, d.right, d.n) == (pytest.approx(defended), pytest.approx(0.9), 24)


@pytest.mark.parametrize(
    ("compare", "verdict"),
    [
        ({"is": "above", "right": 0.2}, "holds"),
        ({"is": "above", "right": 0.4}, "fails"),
        ({"is": "within", "margin": 0.1, "right": 0.35}, "holds"),
        ({"is": "within", "margin": 0.1, "right": 0.6}, "fails"),
        ({"is": "within", "margin": 0.1, "right": 0.4}, "not separable"),
        ({"is": "below", "offset": -0.1, "right": 0.35}, "fails"),
        ({"is": "below", "offset": 0.1, "right": 0.35}, "holds"),
    ],
)
def test_constants(rows: Rows, compare: dict[str, Any], verdict: str) -> None:
    pair(rows, "fsha", 0.9, 0.3)
    assert claim(rows, {"attack": "fsha"}, **compare).verdict == verdict


def test_another_row_may_be_another_attack_rung_or_omega(rows: Rows) -> None:
    for omega, ssim in ((0.7, 0.3), (0.1, 0.1)):
        rows.attack("fsha", ssim, defense="seal", settings={"omega": omega})
    rows.attack("fsha", 0.8, knowledge="exact", **SEAL)
    rows.attack("fora", 0.5, **SEAL)
    at = {"attack": "fsha", "omega": 0.7, "knowledge": "none"}
    assert claim(rows, at, **{"is": "above", "right": {"omega": 0.1}}).verdict == "holds"
    assert claim(rows, at, **{"is": "above", "right": {"knowledge": "exact"}}).verdict == "fails"
    assert claim(rows, at, **{"is": "above", "right": {"attack": "fora"}}).verdict == "fails"


def test_a_weak_attack_cannot_show_that_a_defense_protects(rows: Rows) -> None:
    pair(rows, "fsha", 0.4, 0.05, bar=0.7)
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "factor": 0.25, "right": "twin"})
    assert scored.verdict == "uncalibrated"
    assert "cannot show what the defense does; uncalibrated: undefended, fsha reaches ssim 0.400" in told(
        scored.deciding
    )
    pair(rows, "fora", 0.2, 0.2, bar=0.7)
    guessing = claim(rows, {"attack": "fora"}, **{"is": "below", "factor": 0.25, "right": "twin"})
    assert guessing.verdict == "uncalibrated", "as little with the defense as without shows no failure of it"
    alike = claim(rows, {"attack": "fora"}, **{"is": "within", "margin": 0.1, "right": "twin"})
    assert alike.verdict == "uncalibrated", "nor that the defense does nothing"
    assert claim(rows, {"attack": "fsha"}, **{"is": "above", "right": 0.01}).verdict == "holds", "it shows a leak"
    assert claim(rows, {"attack": "fsha"}, **{"is": "below", "right": 0.01}).verdict == "fails", "and a failure"


def test_one_failure_fails_the_claim_and_one_gap_keeps_it_open(rows: Rows) -> None:
    pair(rows, "fsha", 0.9, 0.1)
    below = {"is": "below", "factor": 0.25, "right": "twin"}
    open_ = claim(rows, {"attack": "each"}, **below)
    assert (open_.verdict, open_.counts) == ("not run", {"not run": 1, "holds": 1})
    pair(rows, "fora", 0.9, 0.8)
    failed = claim(rows, {"attack": "each"}, **below)
    assert (failed.verdict, failed.counts) == ("fails", {"fails": 1, "holds": 1})
    assert "attack=fora" in failed.deciding.about
    assert claim(rows, {"attack": "mean"}, **{"is": "below", "right": 0.5}).verdict == "holds"


@pytest.mark.parametrize(("status", "reason"), [("failed", "the loss became nan"), ("skipped", "needs auxiliary=9")])
def test_what_did_not_finish_is_not_run_and_says_why(rows: Rows, status: str, reason: str) -> None:
    rows.attack("fsha", 0.9)
    rows.attack("fsha", 0.1, **SEAL, status=status, reason=reason)
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "right": "twin"})
    assert scored.verdict == "not run"
    assert scored.judged[0].why == f"{status}: {reason}"


def test_a_missing_twin_and_a_missing_right_side_are_named(rows: Rows) -> None:
    rows.attack("fsha", 0.1, **SEAL)
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "right": "twin"})
    assert scored.judged[0].why == "not run: the undefended twin"
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "right": {"attack": "fora"}})
    assert scored.judged[0].why == "not run: attack=fora"


def test_accuracy_of_an_attacked_run_is_the_tasks_unless_the_attack_changed_it(rows: Rows) -> None:
    rows.train(0.9)
    rows.train(0.88, **SEAL)
    pair(rows, "fora", 0.9, 0.1)
    rows.attack("fsha", 0.1, **SEAL, costs={"accuracy_under_attack": 0.4})
    within = {"is": "within", "margin": 0.05, "right": "twin"}
    assert claim(rows, {"attack": "fora", "metric": "accuracy"}, **within).verdict == "holds"
    below = claim(rows, {"attack": "fsha", "metric": "accuracy"}, **{"is": "below", "right": {"attack": "fora"}})
    assert below.verdict == "holds"
    assert below.judged[0].difference is not None
    assert below.judged[0].difference.left == 0.4


def test_undefended_is_how_many_of_none_are_protected(rows: Rows) -> None:
    rows.train(0.95, clients=10)
    for defense, accuracy in (("seal", 0.945), ("dpsg", 0.6)):
        rows.train(accuracy, clients=10, defense=defense, protected=7)
        rows.train(accuracy - 0.01, clients=10, defense=defense)
    same = {"is": "within", "margin": 0.04, "right": {"protected": 0}}
    assert claim(rows, {"protected": [10, 7], "metric": "accuracy"}, **same).verdict == "holds"
    assert claim(rows, {"defense": "dpsg", "protected": 7, "metric": "accuracy"}, **same).verdict == "fails"


def test_rows_that_differ_in_more_than_the_seed_are_not_averaged(rows: Rows) -> None:
    rows.attack("fsha", 0.3, defense="seal", settings={"omega": 0.7})
    rows.attack("fsha", 0.9, defense="seal", settings={"omega": 0.9})
    scored = claim(rows, {"attack": "fsha"}, **{"is": "below", "right": 0.7})
    assert scored.verdict == "not run"
    assert scored.judged[0].why == "ambiguous: rows that differ in run.defenses[0].settings.omega"


def test_the_papers_own_values_are_judged_too() -> None:
    outcomes: list[Any] = []
    further = [load("seal/table5"), load("seal/table6")]
    verdicts = {s.claim.id: s.paper for s in judge(load("seal/table2"), Found(outcomes, outcomes), further)}
    assert verdicts["withstands"] == "holds"
    assert verdicts["accuracy"] == "fails", "57.3 is 8.1 points below 65.4"
    five = {s.claim.id: s.paper for s in judge(further[0], Found(outcomes, outcomes), [load("seal/table2")])}
    assert five["omega-ssim"] == five["no-collapse"] == five["malicious-server"] == "holds"
    three = {s.claim.id: s.paper for s in judge(load("seal/table3"), Found(outcomes, outcomes), [load("seal/table2")])}
    assert three["dct-drop"] == three["high-fidelity"] == three["never-perfect"] == "holds"
    assert three["not-inferred"] is None


def filled(path: Path) -> Rows:
    """All of SEAL's table 2, as the paper would have it, on a made-up store."""
    rows = Rows(path)
    for dataset, ssim in (("cifar10", 0.11), ("mnist", 0.14), ("fashion_mnist", 0.15), ("tiny_imagenet", 0.1)):
        rows.train(0.9, dataset=dataset)
        rows.train(0.89, dataset=dataset, **SEAL)
        for i, attack in enumerate(("fsha", "unsplit", "fsa", "fora", "sdar")):
            rows.attack(attack, values(0.9, i), dataset=dataset, bar=0.5)
            rows.attack(attack, values(ssim, i, spread=0.01), dataset=dataset, bar=0.5, **SEAL)
    rows.plan("seal/table2", seeds=[0])
    return rows


def test_the_scorecard_of_a_paper(tmp_path: Path) -> None:
    filled(tmp_path)
    scored, notes = claims("seal/table2", store=tmp_path)
    assert {s.claim.id: s.verdict for s in scored} == {
        "withstands": "holds", "accuracy": "holds", "no-sacrifice": "holds", "higher-on-digits": "holds",
        "black-background": "not run",
    }  # fmt: skip
    assert not notes
    assert "4 holds, 1 not run" in scorecard(scored).caption


def test_exit_codes_and_formats(splitbench: Command, tmp_path: Path) -> None:
    filled(tmp_path)
    assert splitbench("claims", "seal/table2", "--store", tmp_path).code == 0
    assert splitbench("claims", "seal/table2", "--store", tmp_path, "--strict").code == 1
    said = json.loads(splitbench("claims", "seal", "--store", tmp_path, "--json").out)
    assert {e["recipe"] for e in said[0]["entries"]} == {f"seal/table{n}" for n in (1, 2, 3, 5, 6)}
    for form in ("markdown", "latex", "csv", "html"):
        out = splitbench("claims", "seal/table2", "--store", tmp_path, "--format", form).out
        assert "withstands" in out
    assert splitbench("claims", "seal/table2", "--store", tmp_path, "--format", "md").code == 2
    assert "did you mean 'desk'?" in splitbench("claims", "seal/table2", "--scale", "desc").err


@pytest.mark.parametrize(
    ("what", "said"), [("seel", "did you mean 'seal'?"), ("quickstart", "makes no claims"), ("no.yaml", "no recipe")]
)
def test_bad_questions(splitbench: Command, what: str, said: str) -> None:
    answer = splitbench("claims", what)
    assert answer.code == 2
    assert said in answer.err


PROBE = """
import sys
from splitbench.cli.main import main
for command in {commands!r}:
    sys.argv = ["splitbench", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    assert "torch" not in sys.modules and "pandas" not in sys.modules, command
"""


def test_nothing_that_reads_the_store_loads_torch(tmp_path: Path) -> None:
    filled(tmp_path)
    store = ["--store", str(tmp_path)]
    run = "cifar10-seal"
    commands = [["claims", "seal"], ["table", "seal/table2"], ["table"], ["diff", "cifar10-none", run],
                ["checklist", run], ["export", run, "--to", str(tmp_path / "x.zip")]]  # fmt: skip
    script = PROBE.format(commands=[[*command, *store] for command in commands])
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True)
