"""An axis is a path into the document of a row, by one name everywhere; a value is a metric or a cost."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from splitbench.core import registry
from splitbench.core.errors import SplitbenchError
from splitbench.core.threat import ThreatModel
from splitbench.plan import axes
from splitbench.plan.axes import check_value, find, heads, resolve
from splitbench.plan.cells import Counts, Training
from splitbench.plan.paper import check, read
from splitbench.report.claims.judge import judge
from splitbench.report.statistics import measured
from splitbench.report.tables import render
from splitbench.report.tables.curve import curve_of
from splitbench.report.tables.paper_table import paper_table
from splitbench.report.tables.table import table
from tests.conftest import Command
from tests.report._rows import Rows, part, values

OMEGAS = (0.1, 0.4, 0.9)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("defense", "defense"),
        ("omega", "defense.seal.omega"),
        ("defense.seal.omega", "defense.seal.omega"),
        ("attack.fora.steps", "attack.fora.steps"),
        ("defense.mine.py:Mine.k", "defense.mine.py:Mine.k"),
        ("model.resnet18.width", "model.resnet18.width"),
        ("rounds", "threat.rounds"),
        ("auxiliary", "threat.auxiliary"),
        ("samples.auxiliary", "samples.auxiliary"),
        ("private", "samples.private"),
        ("epochs", "training.epochs"),
        ("run.training.epochs", "training.epochs"),
        ("run.alpha", "run.alpha"),
        ("run.clients", "clients"),
        ("run.seed", "seed"),
        ("threat.knowledge", "knowledge"),
        ("effort.restarts", "effort.restarts"),
    ],
)
def test_an_axis_has_one_name(given: str, found: str) -> None:
    assert resolve(given) == found
    assert resolve(found) == found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("omgea", "did you mean 'omega'?"),
        ("defense.seal.omgea", "did you mean 'defense.seal.omega'?"),
        ("defense.sael.omega", "did you mean 'defense.seal.omega'?"),
        ("training.epoch", "did you mean 'training.epochs'?"),
        ("trainig.epochs", "did you mean 'training.epochs'?"),
        (3, "no axis named '3'"),
    ],
)
def test_a_misspelt_axis_is_told_what_comes_nearest(given: Any, said: str) -> None:
    with pytest.raises(SplitbenchError) as error:
        resolve(given)
    assert said in str(error.value)


def test_a_setting_of_several_defenses_must_say_whose_it_is() -> None:
    owners: dict[str, list[str]] = {}
    for name in registry.names("defenses"):
        for setting in registry.describe("defenses", name)[1]:
            owners.setdefault(setting.name, []).append(f"defense.{name}.{setting.name}")
    shared = {setting: paths for setting, paths in owners.items() if len(paths) > 1}
    assert shared, "none to test with"
    for setting, paths in shared.items():
        with pytest.raises(SplitbenchError) as error:
            resolve(setting)
        assert all(path in str(error.value) for path in paths)


def test_fields_of_threats_trainings_and_samples_are_those_of_their_classes() -> None:
    for block, kind in (("threat", ThreatModel), ("training", Training), ("samples", Counts)):
        for field in dataclasses.fields(kind):
            path = f"{block}.{field.name}"
            assert resolve(path) in (path, field.name)


def test_the_document_is_read_as_it_is_written() -> None:
    cell = {
        "run": {"defenses": [part("gaussian", {"sigma": 1}), part("seal", {"omega": 0.7})], "alpha": 0.5,
                "training": {"epochs": 3, "augment": ["flip", "crop"]}, "model": part("resnet18", {"width": 0.25}),
                "auxiliary": part("lfw")},
        "attack": part("fora", {"steps": 9}), "threat": {"rounds": 4},
    }  # fmt: skip
    found = {"defense.seal.omega": 0.7, "defense.gaussian.sigma": 1, "attack.fora.steps": 9, "attack.sdar.steps": None,
             "training.epochs": 3, "run.alpha": 0.5, "threat.rounds": 4, "model.resnet18.width": 0.25,
             "effort.restarts": 1, "run.auxiliary": "lfw"}  # fmt: skip
    assert {axis: find(cell, axis) for axis in found} == found
    assert axes.plain(find(cell, "training.augment")) == "flip+crop"


def test_values_are_metrics_or_costs() -> None:
    for name in ("ssim", "epsilon", "bytes_up", "edge_macs"):
        assert check_value("metric", name, "") == []
    [wrong] = check_value("metric", "epsilom", "x")
    assert "did you mean 'epsilon'?" in wrong.what


def test_heads_are_short_unless_two_would_be_the_same() -> None:
    assert heads(("defense.seal.omega", "attack")) == {"defense.seal.omega": "omega", "attack": "attack"}
    both = ("samples.auxiliary", "threat.auxiliary")
    assert heads(both) == {axis: axis for axis in both}


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """SEAL at three omegas and where nothing defends, two attacks on each, two rounds and one."""
    made = Rows(tmp_path)
    for i, omega in enumerate((None, *OMEGAS)):
        at: dict[str, Any] = {} if omega is None else {"defense": "seal", "settings": {"omega": omega}}
        made.train(0.8 - 0.1 * i, costs={"bytes_up": 1e6 * (i + 1), "epsilon": 8.0 / (i + 1)}, **at)
        for name, much in (("fora", 0.9), ("sdar", 0.6)):
            made.attack(name, values(much - 0.2 * i, i), bar=0.5, threat={"rounds": 1}, costs={"iterations": 5.0}, **at)
    made.plan("sweep")
    return made


def test_a_setting_is_an_axis_and_the_undefended_stands_beside_it(rows: Rows) -> None:
    for asked in ("omega", "defense.seal.omega"):
        [made] = table(store=rows.store.path, rows=asked)
        assert made.corner == "omega"
        assert made.rows == ("none", "0.1", "0.4", "0.9")
        assert made.entry("0.4", "fora").mean == pytest.approx(0.5)
        assert made.entry("none", "fora").mean == pytest.approx(0.9)
        assert made.entry("0.4", "accuracy").mean == pytest.approx(0.6)
        assert "defense seal" in made.caption


def test_settings_in_columns_and_conditions(rows: Rows) -> None:
    [made] = table(store=rows.store.path, rows="attack", columns="omega")
    assert made.columns == ("none", "0.1", "0.4", "0.9")
    [made] = table(store=rows.store.path, rows="omega", where={"omega": "0.40"})
    assert made.rows == ("0.4",)
    [made] = table(store=rows.store.path, where={"defense": "seal", "omega": "0.9"}, columns="threat.rounds",
                   rows="attack")  # fmt: skip
    assert (made.rows, made.columns) == (("fora", "sdar", "worst case"), ("1",))
    with pytest.raises(SplitbenchError, match="nothing to show"):
        table(store=rows.store.path, where={"threat.rounds": "7"})
    with pytest.raises(SplitbenchError, match="--metric"):
        table(store=rows.store.path, rows="metric")


def test_rows_without_the_setting_are_counted_and_not_shown(rows: Rows) -> None:
    rows.train(0.5, defense="gaussian", settings={"sigma": 1.0})
    [made] = table(store=rows.store.path, rows="omega")
    assert "1 of 13 rows have no defense.seal.omega: not shown" in made.notes
    with pytest.raises(SplitbenchError, match="no row has a value on"):
        table(store=rows.store.path, rows="attack.fora.steps", columns="defense")


def test_a_cost_is_a_value_with_no_worst_case(rows: Rows) -> None:
    [made] = table(store=rows.store.path, rows="omega", metric="bytes_up")
    assert made.columns == ("training",)
    assert made.entry("0.9", "training").text() == "4,000,000"
    assert "bytes sent by the clients" in made.caption
    assert made.entry("none", "training").mark == ""
    [made] = table(store=rows.store.path, rows="omega", columns="dataset", metric="epsilon")
    assert made.entry("0.9", "cifar10").mean == 2.0
    [made] = table(store=rows.store.path, metric="iterations")
    assert "fora" in made.columns
    assert "worst case" not in made.columns
    with pytest.raises(SplitbenchError, match="did you mean 'bytes_up'"):
        table(store=rows.store.path, metric="byte_up")


def test_the_least_cost_is_the_best(tmp_path: Path) -> None:
    made = Rows(tmp_path)
    for name, sent in (("seal", 10.0), ("gaussian", 20.0)):
        made.train(0.8, defense=name, costs={"bytes_up": sent})
    [one] = table(store=tmp_path, metric="bytes_up")
    assert {row: one.entry(row, "training").mark for row in one.rows} == {"seal": "best", "gaussian": ""}


CLAIM = {"id": "c", "says": "s", "section": "1"}


@pytest.mark.parametrize(
    ("left", "relation", "right", "verdict"),
    [
        ({"omega": 0.9, "metric": "bytes_up"}, "above", {"defense.seal.omega": 0.1}, "holds"),
        ({"omega": 0.9, "metric": "epsilon"}, "below", "twin", "holds"),
        ({"defense.seal.omega": 0.9, "metric": "epsilon"}, "above", 3, "fails"),
        ({"omega": 0.9, "attack": "fora", "threat.rounds": 1, "metric": "ssim"}, "below", {"omega": 0.1}, "holds"),
        ({"omega": 0.9, "attack": "fora", "metric": "iterations"}, "above", 4, "holds"),
    ],
)
def test_claims_take_paths_and_costs(rows: Rows, left: dict[str, Any], relation: str, right: Any, verdict: str) -> None:
    claim = {**CLAIM, "compare": {"left": {"defense": "seal", **left}, "is": relation, "right": right}}
    assert check({"claims": [claim]}) == []
    outcomes = rows.store.outcomes()[0]
    [scored] = judge(read({"claims": [claim]}, "r", ""), measured.Rows(outcomes, outcomes))
    assert scored.verdict == verdict, scored.judged


def test_names_and_claims_may_call_an_axis_differently(rows: Rows) -> None:
    block = {"names": {"omega": {0.1: "a", 0.9: "b"}},
             "claims": [{**CLAIM, "compare": {"left": {"defense": "seal", "defense.seal.omega": "each",
                                                       "metric": "bytes_up"}, "is": "above", "right": 1}}]}  # fmt: skip
    assert check(block) == []
    outcomes = rows.store.outcomes()[0]
    [scored] = judge(read(block, "r", ""), measured.Rows(outcomes, outcomes))
    assert [j.verdict for j in scored.judged] == ["holds", "holds"]
    assert "omega=0.1" in scored.judged[0].about


CURVE = {"table": "2", "layout": "curve", "x": "omega", "lines": "attack",
         "where": {"defense": "seal", "metric": "ssim"}, "names": {"attack": {"fora": "FORA", "sdar": "SDAR"}},
         "axes": ["attack", "omega"], "values": {"fora": {0.1: 0.65}}}  # fmt: skip


def test_a_paper_may_have_a_curve(splitbench: Command, rows: Rows, tmp_path: Path) -> None:
    assert check(CURVE) == []
    rows.plan("sweep", paper=CURVE)
    said = splitbench("table", "sweep", "--store", rows.store.path, "--json")
    assert said.code == 0, said.err
    [made] = json.loads(said.out)
    assert (made["layout"], made["x"], made["lines"]) == ("curve", "omega", "attack")
    fora = [e for e in made["entries"] if e["attack"] == "FORA"]
    assert [e["omega"] for e in fora] == list(OMEGAS)
    assert [e["ssim"] for e in fora] == pytest.approx([0.7, 0.5, 0.3])
    assert [e["paper"] for e in fora] == [0.65, None, None]
    assert [e["undefended"] for e in fora] == pytest.approx([0.9] * 3)
    assert paper_table(read(CURVE, "sweep", ""), store=rows.store.path).rows == (("0.1",), ("0.4",), ("0.9",))


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({**CURVE, "layout": "curv"}, "did you mean 'curve'?"),
        ({**CURVE, "rows": ["attack"]}, "a curve has x and lines instead"),
        ({k: v for k, v in CURVE.items() if k != "x"}, "a curve has no `x`"),
        ({"x": "omega"}, "goes with `layout: curve`"),
        ({**CURVE, "x": "defense.seal.omgea"}, "did you mean"),
        ({**CURVE, "where": {"defense": "seal"}}, "neither an axis nor in `where`"),
    ],
)
def test_mistakes_in_a_curve_are_told(block: dict[str, Any], said: str) -> None:
    assert any(said in mistake.what for mistake in check(block))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_curves_are_printed_and_drawn(splitbench: Command, rows: Rows, tmp_path: Path, ending: str) -> None:
    said = splitbench("table", "sweep", "--curve", "--rows", "omega", "--store", rows.store.path, "--format", "csv")
    assert said.out.splitlines()[0].startswith("attack,omega,ssim,half_width_95")
    picture = tmp_path / f"curve.{ending}"
    arguments = ("figure", "sweep", "--x", "omega", "--store", rows.store.path, "--output", picture)
    assert splitbench(*arguments).code == 0
    first = picture.read_bytes()
    assert len(first) > 5_000
    assert splitbench(*arguments).code == 0
    assert picture.read_bytes() == first
    assert splitbench(*arguments, "--metric", "bytes_up").code == 0


def test_a_curve_needs_numbers(splitbench: Command, rows: Rows) -> None:
    said = splitbench("table", "--curve", "--store", rows.store.path)
    assert said.code == 2
    assert "a curve needs numbers" in said.err
    assert splitbench("figure", "sweep", "--metric", "ssim", "--store", rows.store.path).code == 2


def test_a_curve_has_rules_for_what_is_undefended(rows: Rows) -> None:
    [made] = table(store=rows.store.path, rows="omega")
    curve = curve_of(made)
    assert curve.undefended["fora"] == pytest.approx(0.9)
    assert [p.x for p in curve.series["fora"]] == list(OMEGAS)
    assert "| fora | 0.1 |" in render.markdown(curve)
