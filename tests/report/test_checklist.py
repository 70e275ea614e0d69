"""The checklist is filled from the rows, and says what they do not answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.report.checklist import Checklist, checklist
from tests.conftest import Command
from tests.report._rows import Rows, values

SEAL = {"defense": "seal", "settings": {"omega": 0.7}}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    made = Rows(tmp_path)
    made.train(0.9)
    made.train(0.89, **SEAL)
    for name in ("fsha", "fora"):
        made.attack(name, 0.9, bar=0.5)
        made.attack(name, values(0.2, len(name)), bar=0.5, **SEAL)
    return made


def answers(made: Checklist) -> dict[str, str]:
    return {item.question: item.answer for item in made.items}


def item(made: Checklist, words: str) -> tuple[str, str]:
    [found] = [i for i in made.items if words in i.question]
    return found.answer, found.evidence


def filled(rows: Rows) -> Checklist:
    return checklist("cifar10-seal", store=rows.store.path)


def test_what_the_rows_say_is_answered_and_the_rest_is_listed_with_what_would_answer_it(rows: Rows) -> None:
    made = filled(rows)
    assert item(made, "threat model") == ("yes", 'knowledge="none"')
    assert item(made, "nothing defends") == ("yes", "ssim undefended of fora 0.900, fsha 0.900")
    assert item(made, "worst case")[0] == "yes"
    assert item(made, "know of the defense")[0] == "unanswered"
    text = made.markdown()
    assert "- [ ] **Do twice the iterations change nothing?** unanswered: no attack was given twice" in text
    assert f"- Do twice the iterations change nothing? `splitbench attack fora --run {made.run} --double`" in text
    assert text.count("\n- [") == len(made.items)
    assert len(made.unanswered) == text.split("Unanswered:")[1].count("\n- ")


def test_each_question_is_answered_once_its_rows_are_there(rows: Rows) -> None:
    rows.attack("mean_image", 0.1, **SEAL)
    rows.attack("oracle_decoder", 0.95, **SEAL)
    rows.attack("fora", 0.8, knowledge="exact", bar=0.5, **SEAL)
    rows.attack("fora", 0.3, knowledge="family", bar=0.5, **SEAL)
    rows.train(0.88, seed=1, **SEAL)
    store = rows.store
    done = {o.key: o for o in store.outcomes()[0]}
    fsha = next(o for o in done.values() if o.attack == "fsha" and o.defense == "seal")
    store.put(replace(fsha, costs={"iterations": 100.0, "replay_identical": 0.0, "accuracy_under_attack": 0.2}))
    longer = {**fsha.cell, "attack": {**fsha.cell["attack"], "settings": {"steps": 2}}}
    store.put(replace(fsha, key="longer", cell=longer, costs={"iterations": 200.0}))
    store.put(replace(fsha, key="again", cell={**fsha.cell, "effort": {"restarts": 3}}))
    store.put(replace(fsha, key="rounds", cell={**fsha.cell, "threat": {**fsha.cell["threat"], "rounds": 8}}))
    trained = next(o for o in done.values() if o.kind == "train" and o.defense == "seal" and o.seed == 0)
    store.put(
        replace(trained, provenance={"sample_digests": {"private": "a", "auxiliary": "b"}}, costs={"bytes_up": 9.0})
    )
    bare = next(o for o in done.values() if o.kind == "train" and o.defense == "none")
    store.put(replace(bare, costs={"chance": 0.1}))
    folder = store.run_folder(fsha.run) / "attacks"
    folder.mkdir(parents=True)
    (folder / f"{fsha.key}.progress.png").touch()
    made = checklist(fsha.run, store=store.path)
    assert made.unanswered == []
    assert item(made, "twice the iterations") == ("yes", "fsha 0.200 with 100, 0.200 with 200")
    assert item(made, "other seeds") == ("yes", "seeds 0, 1")
    assert item(made, "holds the defense's secret") == ("yes", "ssim of fora · exact 0.800")


def test_a_replay_on_other_threads_is_no_active_attack(rows: Rows) -> None:
    rows.attack("fora", 0.8, **SEAL)
    fora = next(o for o in rows.store.outcomes()[0] if o.attack == "fora" and o.defense == "seal")
    rows.store.put(replace(fora, costs={"iterations": 100.0, "replay_identical": 0.0}))
    made = checklist(fora.run, store=rows.store.path)
    assert item(made, "keep to the protocol") == ("unanswered", "no attack changed what was sent")


def test_what_is_wrong_is_no_and_not_unanswered(rows: Rows) -> None:
    rows.attack("sdar", 0.3, bar=0.5)
    rows.attack("sdar", 0.1, bar=0.5, **SEAL)
    rows.attack("fora", 0.05, knowledge="exact", bar=0.5, **SEAL)
    made = filled(rows)
    answer, evidence = item(made, "nothing defends")
    assert answer == "no"
    assert "sdar reaches ssim 0.300; its bar is 0.5" in evidence
    assert item(made, "know more")[0] == "no"
    assert item(made, "holds the defense's secret")[0] == "no"


def test_an_attack_without_a_bar_must_beat_the_floor_undefended(rows: Rows) -> None:
    rows.attack("mean_image", 0.4, **SEAL)
    rows.attack("sdar", 0.3)
    rows.attack("sdar", 0.1, **SEAL)
    assert item(filled(rows), "nothing defends") == ("no", "ssim undefended of sdar 0.300, the best floor has 0.400")


def test_what_failed_is_reported(rows: Rows) -> None:
    rows.attack("sdar", 0.3, status="failed", reason="the loss became nan", **SEAL)
    assert "sdar failed: the loss became nan" in item(filled(rows), "failures included")[1]


def test_a_run_without_attacks_answers_little(tmp_path: Path) -> None:
    Rows(tmp_path).train(0.9)
    made = checklist(store=tmp_path)
    assert item(made, "threat model")[0] == "unanswered"
    assert item(made, "price")[0] == "yes"


def test_the_command(splitbench: Command, rows: Rows) -> None:
    said = splitbench("checklist", "cifar10-seal", "--store", rows.store.path)
    assert said.code == 0
    assert said.out == filled(rows).markdown()
    assert json.loads(splitbench("checklist", "--store", rows.store.path, "--json").out)["items"]
    assert splitbench("checklist", "nothing", "--store", rows.store.path).code == 2
    with pytest.raises(SplitbenchError, match="no rows"):
        checklist(store=rows.store.path / "empty")
