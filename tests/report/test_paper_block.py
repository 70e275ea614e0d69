"""What a `paper:` block may say: percentages, digits, what values stand for, what is left out, and alternatives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splitbench.plan.claim import check as check_claims
from splitbench.plan.claim import read as read_claims
from splitbench.plan.paper import Paper, check, read
from splitbench.report.claims.judge import Scored, judge
from splitbench.report.statistics.measured import Rows as Found
from splitbench.report.tables import render
from splitbench.report.tables.paper_table import paper_table
from splitbench.store.outcome import Score
from tests.report._rows import Rows, values

BLOCK: dict[str, Any] = {
    "percent": ["accuracy"],
    "digits": {"ssim": 4, "accuracy": 2},
    "where": {"attack": "fora"},
    "means": {"defense": {"seal": {"defense.seal.omega": 0.7}}},
    "rows": ["dataset", "defense"],
    "columns": ["metric"],
    "names": {
        "dataset": {"mnist": "MNIST", "cifar10": "CIFAR-10"},
        "defense": {"none": "SL", "seal": "SEAL"},
        "metric": {"accuracy": "Acc", "ssim": "SSIM"},
    },
    "undefended": {"defense": "none"},
    "axes": ["dataset", "defense", "metric"],
    "values": {
        "mnist": {"none": {"accuracy": 0.9105, "ssim": 0.67}, "seal": {"accuracy": 0.89, "ssim": 0.0007}},
        "cifar10": {"seal": None},
    },
}


def paper(**change: Any) -> Paper:
    block = {**BLOCK, **change}
    assert check(block) == []
    return read(block, "own/table", "T")


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """SEAL twice, so that which is meant must be said."""
    made = Rows(tmp_path)
    for defense, settings, accuracy, ssim in (("none", {}, 0.95, 0.8), ("seal", {"omega": 0.7}, 0.9, 0.0123),
                                              ("seal", {"omega": 0.1}, 0.5, 0.001)):  # fmt: skip
        at: dict[str, Any] = {"defense": defense, "settings": settings, "dataset": "mnist"}
        made.train(accuracy, **at)
        each = values(ssim, spread=0.0001)
        made.attack("fora", ssim, scores=(Score("ssim", "wang2004", ssim, len(each), each, "clamp"),), **at)
    made.plan("own/table")
    return made


def lines(of: Paper, **how: Any) -> list[str]:
    return render.markdown(paper_table(of, **how)).splitlines()


def test_percentages_and_digits_are_those_of_each_metric() -> None:
    assert "| MNIST | SL | 91.05 | 0.6700 |" in lines(paper(), side="paper")
    assert "|  | SEAL | 89.00 | 0.0007 |" in lines(paper(), side="paper")
    assert "|  | SEAL | 0.890 | 0.001 |" in lines(paper(percent=False, digits={}), side="paper")
    assert "percentage" not in "\n".join(lines(paper(), side="paper"))
    assert "all values in percentage" in "\n".join(lines(paper(percent=True), side="paper"))


def test_a_table_has_the_combinations_that_the_paper_has_and_what_was_run_besides(rows: Rows) -> None:
    shown = lines(paper(), side="paper")
    assert "| CIFAR-10 | SEAL | – | – |" in shown, "printed empty"
    assert len([line for line in shown if line.startswith("| ")]) - 2 == 3, "CIFAR-10 undefended is not in the values"
    several = {**BLOCK["values"]["mnist"]}
    only = paper(values={"mnist": {"seal": several["seal"]}})
    ours = lines(only, store=rows.store.path)
    assert any("| SL |" in line for line in ours), "it was run"
    assert not any("CIFAR-10" in line for line in ours)


def test_of_a_table_that_nobody_printed_only_what_was_run_is_shown(rows: Rows) -> None:
    shown = lines(paper(values=None), store=rows.store.path)
    assert len([line for line in shown if line.startswith("| ")]) - 2 == 2
    assert not any("CIFAR-10" in line for line in shown)


def test_a_value_stands_for_the_settings_that_the_block_says(rows: Rows) -> None:
    assert any(line.startswith("|  | SEAL | 90.00 [89.00] | 0.0123 ") for line in lines(paper(), store=rows.store.path))
    ambiguous = lines(paper(means={}), store=rows.store.path)
    assert any("ambiguous" in line for line in ambiguous)
    assert paper().value({"dataset": "mnist", "defense": "seal", "metric": "ssim"}) == 0.0007
    other = {"dataset": "mnist", "defense": "seal", "defense.seal.omega": "0.1", "metric": "ssim"}
    assert paper().value(other) is None, "the paper printed nothing of it"
    assert paper(means={}).value(other) == 0.0007


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"percent": ["acuracy"]}, "did you mean 'accuracy'?"),
        ({"digits": {"ssim": -1}}, "how many digits"),
        ({"digits": {"sim": 1}}, "did you mean 'ssim'?"),
        ({"means": {"defense": "none"}}, "what they stand for besides"),
        ({"means": {"defens": {}}}, "did you mean 'defense'?"),
        ({"means": {"defense": {"sea": {}}}}, "did you mean 'seal'?"),
        ({"means": {"defense": {"seal": {"omga": 1}}}}, "did you mean 'omega'?"),
        ({"layout": "galery"}, "did you mean 'gallery'?"),
        ({"layout": "losses"}, "`layout: losses` has only rows"),
    ],
)
def test_every_mistake_is_told(change: dict[str, Any], what: str) -> None:
    assert any(what in mistake.what for mistake in check({**BLOCK, **change})), check({**BLOCK, **change})


def test_a_gallery_needs_no_columns() -> None:
    kept = {key: BLOCK[key] for key in ("where", "names")}
    assert check({**kept, "layout": "gallery", "rows": ["defense"]}) == []
    assert check({**kept, "rows": ["defense"]}) != []


def either(rows: Rows, *alternatives: dict[str, Any]) -> Scored:
    claim = {"id": "c", "says": "s", "section": "1", "compare": {"any": list(alternatives)}}
    names = {axis: tuple(labels) for axis, labels in BLOCK["names"].items()}
    assert check_claims([claim], names, "claims") == []
    outcomes, _ = rows.store.outcomes()
    of = paper(claims=[])
    [scored] = judge(replace(of, claims=read_claims([claim])), Found(outcomes, outcomes))
    return scored


def comparison(metric: str, how: str, right: Any) -> dict[str, Any]:
    return {"left": {"dataset": "mnist", "defense": "seal", "metric": metric}, "is": how, "right": right}


WORSE, PRIVATE = comparison("accuracy", "above", "twin"), comparison("ssim", "below", 0.5)
LEAKS, UNKNOWN = comparison("ssim", "above", 0.5), comparison("psnr", "below", 3)


@pytest.mark.parametrize(
    ("alternatives", "verdict"),
    [
        ((WORSE, PRIVATE), "holds"),
        ((PRIVATE, WORSE), "holds"),
        ((WORSE, LEAKS), "fails"),
        ((WORSE, UNKNOWN), "not run"),
        ((PRIVATE, UNKNOWN), "holds"),
    ],
)
def test_of_alternatives_one_must_hold(rows: Rows, alternatives: tuple[dict[str, Any], ...], verdict: str) -> None:
    scored = either(rows, *alternatives)
    assert scored.verdict == verdict
    assert " or " in scored.judged[0].about


def test_alternatives_are_asked_question_by_question(rows: Rows) -> None:
    """Of two defenses each must be better in something, not one in everything."""
    both = {"dataset": "mnist", "defense": ["none", "seal"]}
    accurate = {"left": {**both, "metric": "accuracy"}, "is": "above", "right": 0.93}
    private = {"left": {**both, "metric": "ssim"}, "is": "below", "right": 0.5}
    scored = either(rows, accurate, private)
    assert [judged.verdict for judged in scored.judged] == ["holds", "holds"]
    outcomes, _ = rows.store.outcomes()
    for one in (accurate, private):
        claim = read_claims([{"id": "c", "says": "s", "section": "1", "compare": one}])
        [alone] = judge(replace(paper(), claims=claim), Found(outcomes, outcomes))
        assert alone.verdict == "fails"


@pytest.mark.parametrize(
    ("compare", "what"),
    [
        ({"any": [PRIVATE]}, "two comparisons or more"),
        ({"any": [PRIVATE, WORSE], "is": "below"}, "two comparisons or more"),
        ({"any": [PRIVATE, {**WORSE, "is": "abov"}]}, "did you mean 'above'?"),
        ({"any": [PRIVATE, {"any": [PRIVATE, WORSE]}]}, "no alternatives of their own"),
        (
            {"any": [PRIVATE, {**WORSE, "left": {**WORSE["left"], "defense": ["none", "seal"]}}]},
            "they ask 1, 2 questions",
        ),
    ],
)
def test_alternatives_that_do_not_fit_are_told(compare: dict[str, Any], what: str) -> None:
    names = {axis: tuple(labels) for axis, labels in BLOCK["names"].items()}
    found = check_claims([{"id": "c", "says": "s", "section": "1", "compare": compare}], names, "claims")
    assert any(what in mistake.what for mistake in found), found
