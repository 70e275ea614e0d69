"""What an attacked number is read beside: the undefended twin, and the blind guesses of its own goal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splitbench.core import registry
from splitbench.core.goal import GOALS
from splitbench.plan.cells import Cell
from splitbench.runner import api
from splitbench.runner.execute import Finished
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store
from tests.runner._small import SMALL
from tests.runner.test_store import outcome

OWN = '''
from typing import ClassVar
from splitbench.core.attack import Attack
from splitbench.core.threat import ThreatModel

class Guess(Attack):
    """Guesses labels."""
    goal: ClassVar[str] = "labels"

class Commonest(Attack):
    """Answers the commonest label of the auxiliary samples."""
    goal: ClassVar[str] = "labels"
    role: ClassVar[str] = "floor"
    modality: ClassVar[None] = None
    needs: ClassVar[ThreatModel] = ThreatModel(party="any", auxiliary=1)
'''


@pytest.fixture(autouse=True)
def label_attack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack on labels and its floor, from another package."""
    (tmp_path / "own.py").write_text(OWN)
    mine = {"guess": f"{tmp_path / 'own.py'}:Guess", "commonest": f"{tmp_path / 'own.py'}:Commonest"}
    monkeypatch.setattr(registry, "_plugins", lambda kind: mine if kind == "attacks" else {})
    monkeypatch.setitem(GOALS, "labels", replace(GOALS["labels"], floors=("commonest",), beside={"*": "commonest"}))


def trained(store: Path, **changes: Any) -> str:
    return api.train(store=store, **{**SMALL, **changes}).run


def named(cells: list[Cell]) -> list[tuple[str, str]]:
    defense = [cell.run.defenses[0].name if cell.run.defenses else "none" for cell in cells]
    return [(cell.attack.name if cell.attack else "train", which) for cell, which in zip(cells, defense, strict=True)]


def test_the_floor_beside_an_attack_is_that_of_its_goal(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = trained(tmp_path, defense="gaussian")
    twins = [("train", "none"), ("{}", "none")]
    for attack, floor in (("guess", "commonest"), ("black", "mean_image")):
        cells = api.reference_cells(api.attack_cell(attack, run, store, {}))
        wanted = [(name.format(attack), which) for name, which in twins]
        assert named(cells) == [*wanted, (floor, "gaussian")]


def test_a_floor_that_cannot_be_mounted_is_left_out(tmp_path: Path) -> None:
    run = trained(tmp_path)
    assert named(api.reference_cells(api.attack_cell("guess", run, Store(tmp_path), {"auxiliary": 0}))) == []


@pytest.mark.parametrize(
    ("attacked", "floors"),
    [
        ([], {("black", "server")}),
        ([("black", "server")], {("black", "server")}),
        ([("guess", "server")], {("commonest", "server")}),
        ([("guess", "client0"), ("black", "server")], {("commonest", "client0"), ("black", "server")}),
    ],
)
def test_evaluate_mounts_the_floors_of_every_goal_that_was_attacked_by_whom_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attacked: list[tuple[str, str]],
    floors: set[tuple[str, str]],
) -> None:
    store = Store(tmp_path)
    run = trained(tmp_path)
    for name, party in attacked:
        cell = api.attack_cell(name, run, store, {"party": party})
        goal = "labels" if name == "guess" else "inputs"
        row = outcome(cell.key, run=run, cell=cell.document(), goal=goal, party=party, role="attack")
        store.put(replace(row, attack=name, status="skipped"))
    planned: list[Cell] = []

    def record(cells: list[Cell], *_: Any, **__: Any) -> list[Finished]:
        planned.extend(cells)
        return []

    monkeypatch.setattr(api, "run_cells", record)
    monkeypatch.setattr(api, "perform", lambda cell, _: Finished(cell, outcome(), True))
    api.evaluate(run=run, store=tmp_path)
    found = {(c.attack.name, c.threat.party) for c in planned if c.attack is not None and c.threat is not None}
    of_inputs = {n for n in registry.names("attacks") if registry.declared("attacks", n, "role") == "floor"}
    shown = {(name, party) for name, party in found if name in ("black", "commonest")}
    assert shown == floors
    assert {name for name, _ in found} <= of_inputs


@pytest.mark.parametrize(
    ("value", "undefended", "floor", "verdict"),
    [(0.9, 0.9, 0.1, "leaks"), (0.2, 0.9, 0.1, "hides"), (0.2, 0.4, 0.1, "uncalibrated"), (0.5, 0.9, 0.3, "hides")],
)
def test_the_verdict_is_in_the_metric_of_the_goal(
    tmp_path: Path, value: float, undefended: float, floor: float, verdict: str
) -> None:
    store = Store(tmp_path)
    cell = api.attack_cell("guess", trained(tmp_path, defense="gaussian"), store, {})
    beside = api.reference_cells(cell)[-1]

    def row(cell: Cell, accuracy: float) -> Outcome:
        scores = (Score("ssim", "1", 0.99, 4), Score("accuracy", "1", accuracy, 4))
        return outcome(cell.key, run=cell.run.key, cell=cell.document(), goal="labels", scores=scores, samples=(),
                       twin=cell.twin.key, bars=(("accuracy", 0.5),))  # fmt: skip

    for one, accuracy in ((cell.twin, undefended), (beside, floor)):
        store.put(row(one, accuracy))
    found = api.verdict(row(cell, value), store=tmp_path)
    assert (found.value, found.undefended, found.floor) == (value, undefended, floor)
    assert found.metric == "accuracy"
    assert found.verdict == verdict


def test_a_bar_in_another_metric_counts_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cell = api.attack_cell("black", trained(tmp_path), store, {})
    scores = (Score("ssim", "1", 0.9, 4), Score("psnr", "1", 12.0, 4))
    row = outcome(cell.key, run=cell.run.key, cell=cell.document(), scores=scores, samples=(), twin=cell.key,
                  bars=(("ssim", 0.5), ("psnr", 15.0)))  # fmt: skip
    store.put(row)
    assert not api.verdict(row, store=tmp_path).calibrated
    assert api.verdict(replace(row, bars=row.bars[:1]), store=tmp_path).calibrated
