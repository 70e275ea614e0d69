"""A network that never learned has no utility to keep or to lose, and that is said wherever utility is."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.plan.paper import read
from splitbench.report.claims.judge import claims, judge
from splitbench.report.page.page import report
from splitbench.report.statistics import measured
from splitbench.report.statistics.calibration import planned_bars
from splitbench.report.tables.paper_table import paper_table
from splitbench.report.tables.table import table
from tests.report._rows import Rows

SEAL = {"defense": "seal", "settings": {"omega": 0.7}}
BAR = (("accuracy", 0.7),)
CHANCE = {"chance": 0.1}


def victims(path: Path, undefended: float, defended: float = 0.1, **more: object) -> Rows:
    rows = Rows(path)
    rows.train(undefended, costs=CHANCE, **more)
    rows.train(defended, costs=CHANCE, **SEAL, **more)
    for at in ({}, SEAL):
        rows.attack("fora", 0.9 if not at else 0.1, bar=0.5, **at)
        rows.attack("sdar", 0.8 if not at else 0.1, **at)
    return rows


def kept(rows: Rows, **bars: object) -> tuple[str, str]:
    """The verdict on: it keeps the accuracy."""
    left = {"defense": "seal", "metric": "accuracy"}
    compare = {"left": left, "is": "within", "margin": 0.05, "right": "twin"}
    claim = {"id": "c", "says": "s", "section": "1", "compare": compare}
    outcomes = rows.store.outcomes()[0]
    held = measured.Rows(outcomes, outcomes, **bars)  # type: ignore[arg-type]
    [scored] = judge(read({"claims": [claim]}, "r", ""), held)
    return scored.verdict, scored.judged[0].why


def test_a_victim_above_its_bar_is_believed(tmp_path: Path) -> None:
    rows = victims(tmp_path, 0.8, 0.79, bars=BAR)
    assert table(store=tmp_path)[0].entry("seal", "accuracy").text() == "0.790"
    assert kept(rows)[0] == "holds"


def test_below_the_bar_utility_is_marked_and_its_claims_are_uncalibrated(tmp_path: Path) -> None:
    rows = victims(tmp_path, 0.37, 0.36, bars=BAR)
    [made] = table(store=tmp_path)
    assert made.entry("none", "accuracy").text() == "0.370?"
    assert made.entry("seal", "accuracy").text() == "0.360?"
    [note] = [n for n in made.notes if n.startswith("seal × accuracy")]
    assert "uncalibrated: the undefended training reaches accuracy 0.370; the bar is 0.7" in note
    assert not made.entry("seal", "fora").doubt, "what leaks is another question"
    verdict, why = kept(rows)
    assert verdict == "uncalibrated"
    assert "the undefended training reaches accuracy 0.370; the bar is 0.7" in why


def test_at_chance_it_is_said_in_words_without_any_bar(tmp_path: Path) -> None:
    rows = victims(tmp_path, 0.115, 0.11)
    said = "the undefended training did not learn: accuracy 0.115, and always answering the commonest label gives 0.100"
    [made] = table(store=tmp_path)
    assert made.entry("seal", "accuracy").text() == "0.110?"
    assert any(said in note for note in made.notes)
    assert kept(rows) == ("uncalibrated", f"cannot show what the defense costs; uncalibrated: {said}")
    page = report(tmp_path).html
    assert f"What a defense costs on cifar10 is inconclusive: {said}." in page
    assert "points of accuracy" not in page


def test_a_defense_at_chance_beside_a_victim_that_learned_is_a_result(tmp_path: Path) -> None:
    rows = victims(tmp_path, 0.8, 0.1)
    assert table(store=tmp_path)[0].entry("seal", "accuracy").text() == "0.100"
    assert kept(rows)[0] == "fails"


@pytest.mark.parametrize(("accuracy", "learned"), [(0.12, False), (0.121, True)])
def test_the_border_of_chance(tmp_path: Path, accuracy: float, learned: bool) -> None:
    victims(tmp_path, accuracy)
    assert bool(table(store=tmp_path)[0].entry("none", "accuracy").doubt) is not learned


def test_without_the_undefended_training_a_bar_is_not_reached(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.train(0.9, bars=BAR, **SEAL)
    assert "the undefended training was not run" in table(store=tmp_path)[0].entry("seal", "accuracy").doubt


def test_the_bar_of_a_plan_is_enough(tmp_path: Path) -> None:
    rows = victims(tmp_path, 0.37, 0.36)
    assert kept(rows)[0] == "holds"
    rows.plan("seal/table2", bars=[{"accuracy": 0.7}] * len(rows.keys))
    plan = rows.store.plan("seal/table2", "desk")
    assert plan is not None
    assert kept(rows, bars=planned_bars(plan))[0] == "uncalibrated"
    assert table("seal/table2", store=tmp_path)[0].entry("seal", "accuracy").text() == "0.360?"
    made = paper_table("seal/table2", store=tmp_path, metric="accuracy", where={"dataset": "cifar10"})
    assert any("the bar is 0.7" in note for note in made.notes)
    assert any("?" in cell.text for line in made.sheet().cells for cell in line)
    scored, _ = claims("seal/table2", store=tmp_path)
    assert not [s for s in scored for j in s.judged if "accuracy" in j.about and j.verdict in ("holds", "fails")]
    assert "the bar is 0.7" in report(tmp_path).html
