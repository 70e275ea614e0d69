"""What the page opens with is what the rows say, and no more than they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from splitbench.report.page.answer import Answer, answer
from splitbench.report.page.gather import gather
from splitbench.report.page.verdicts import Standing, standings
from splitbench.store.store import Store
from tests.report.page._store import GAUSSIAN, attack, small, spec, train


def told(store: Path, not_run: int = 0) -> tuple[Answer, list[Standing]]:
    rows = gather(Store(store))
    found = standings(rows)
    return answer(rows, found, not_run), found


def verdicts(found: list[Standing]) -> dict[str, str]:
    return {s.defense: s.verdict for s in found}


def test_who_holds_and_who_leaks_and_the_price(tmp_path: Path) -> None:
    said, found = told(small(tmp_path))
    assert verdicts(found) == {"none": "undefended", "gaussian(sigma=0.5)": "leaks", "gaussian(sigma=2)": "holds"}
    assert said.lead == ("On fashion_mnist_mini, gaussian(sigma=2) holds; gaussian(sigma=0.5) leaks.")
    assert said.price == (
        "The cheapest that holds, gaussian(sigma=2), costs 10.0 points of accuracy (0.700, "
        "undefended 0.800) and sends as many bytes; inversion · exact recovers SSIM 0.22 (undefended 0.95, a blind "
        "guess 0.10)."
    )
    assert said.caveats[0].startswith("One seed each")


@pytest.mark.parametrize(
    ("leak", "verdict"),
    [(0.52, "holds"), (0.53, "leaks")],  # half of what lies between 0.1 and 0.95 is reached at 0.525
)
def test_the_line_between_holding_and_leaking_is_half_of_what_lies_beyond_the_mean_image(
    tmp_path: Path, leak: float, verdict: str
) -> None:
    for defenses, value in (((), 0.95), ((GAUSSIAN[1.0],), leak)):
        train(tmp_path, spec(*defenses))
        attack(tmp_path, spec(*defenses), "mean_image", 0.1, bar=0.0)
        attack(tmp_path, spec(*defenses), "inversion", value)
    assert verdicts(told(tmp_path)[1])["gaussian(sigma=1)"] == verdict


def test_an_attack_that_fails_undefended_lets_nothing_hold(tmp_path: Path) -> None:
    for defenses, value in (((), 0.7), ((GAUSSIAN[1.0],), 0.2)):
        train(tmp_path, spec(*defenses))
        attack(tmp_path, spec(*defenses), "inversion", value)
    said, found = told(tmp_path)
    assert verdicts(found)["gaussian(sigma=1)"] == "uncalibrated"
    assert said.lead.startswith("No verdict yet: the defense tried was not faced by an attack")
    assert "Uncalibrated, so not counted: inversion. They fail, or were not run, where nothing defends." in said.caveats


def test_an_attack_whose_twin_is_not_there_lets_nothing_hold(tmp_path: Path) -> None:
    train(tmp_path, spec(GAUSSIAN[1.0]))
    attack(tmp_path, spec(GAUSSIAN[1.0]), "inversion", 0.2)
    said, found = told(tmp_path)
    assert verdicts(found) == {"gaussian(sigma=1)": "uncalibrated"}
    assert said.price == ""


def test_one_weak_attack_beside_a_strong_one_changes_nothing(tmp_path: Path) -> None:
    small(tmp_path)
    for defenses in ((), (GAUSSIAN[2.0],)):
        attack(tmp_path, spec(*defenses), "fora", 0.3)  # fails where nothing defends
    said, found = told(tmp_path)
    assert verdicts(found)["gaussian(sigma=2)"] == "holds"
    assert any(c.startswith("Uncalibrated, so not counted: fora") for c in said.caveats)


def test_what_nobody_tried_is_said(tmp_path: Path) -> None:
    for defenses, value in (((), 0.95), ((GAUSSIAN[2.0],), 0.2)):
        train(tmp_path, spec(*defenses))
        attack(tmp_path, spec(*defenses), "inversion", value)
    attack(tmp_path, spec(GAUSSIAN[2.0]), "oracle_decoder", 0.9)
    attack(tmp_path, spec(GAUSSIAN[2.0]), "sdar", 0.0, status="skipped", reason="needs architecture", scores=())
    train(tmp_path, spec(GAUSSIAN[0.5]))
    said, _ = told(tmp_path, not_run=3)
    assert said.lead == "On fashion_mnist_mini, gaussian(sigma=2) holds against every calibrated attack mounted here."
    for sentence in (
        "No calibrated attack on gaussian(sigma=2) on fashion_mnist_mini knew of the defense: an adaptive one may do "
        "better.",
        "A decoder shown true pairs recovers SSIM 0.90 through gaussian(sigma=2) on fashion_mnist_mini: what it hides "
        "is still there.",
        "1 of 7 rows skipped; most often: needs architecture.",
        "3 planned cells are not run yet.",
        "Not attacked: gaussian(sigma=0.5) on fashion_mnist_mini.",
        "Scale desk: not the papers' own settings.",
    ):
        assert sentence in said.caveats, said.caveats


def test_nothing_defended_is_no_answer(tmp_path: Path) -> None:
    train(tmp_path, spec())
    assert told(tmp_path)[0].lead.startswith("Nothing is defended here")
    attack(tmp_path, spec(), "inversion", 0.9)
    assert told(tmp_path)[0].lead == (
        "No defense was tried here. Undefended, the attacks together get SSIM 0.90 on fashion_mnist_mini."
    )


def test_a_seed_that_failed_is_not_left_out_of_a_mean(tmp_path: Path) -> None:
    for seed in (0, 1):
        for defenses, value in (((), 0.95), ((GAUSSIAN[2.0],), 0.2)):
            train(tmp_path, spec(*defenses, seed=seed))
            attack(tmp_path, spec(*defenses, seed=seed), "inversion", value)
    attack(tmp_path, spec(GAUSSIAN[2.0], seed=1), "inversion", 0.0, status="failed", reason="NaN", scores=())
    said, found = told(tmp_path)
    assert verdicts(found)["gaussian(sigma=2)"] == "not attacked"
    assert "1 of 8 rows failed; most often: NaN." in said.caveats


def test_settings_that_differ_are_never_compared(tmp_path: Path) -> None:
    """The undefended run of other epochs is no twin, and the two settings are told apart by name."""
    run = spec(GAUSSIAN[1.0])
    other = spec(training=replace(run.training, epochs=9))
    for one, value in ((run, 0.2), (other, 0.95)):
        train(tmp_path, one)
        attack(tmp_path, one, "inversion", value)
    _, found = told(tmp_path)
    assert verdicts(found)["gaussian(sigma=1)"] == "uncalibrated"
    assert sorted(s.setting.name.partition("[")[2] for s in found) == ["epochs 5]", "epochs 9]"]
