"""What a paper claims and how it lays out a table is data, checked with the recipe: all mistakes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.plan.axes import plain
from splitbench.plan.claim import check as check_claims
from splitbench.plan.claim import read
from splitbench.plan.paper import check, load
from splitbench.plan.recipe import Recipe

CLAIM = {
    "id": "withstands",
    "says": "SEAL withstands attacks",
    "section": "abstract",
    "compare": {"left": {"attack": "each", "metric": "ssim"}, "is": "below", "factor": 0.25, "right": "twin"},
}
NAMES = {"attack": ("fsha", "fora"), "dataset": ("mnist", "cifar10")}


def changed(**compare: Any) -> list[dict[str, Any]]:
    return [{**CLAIM, "compare": {**CLAIM["compare"], **compare}}]  # type: ignore[dict-item]


PRINTED = [n for n in recipes.names() if n.startswith("seal/table") and not recipes.counts_only(recipes.find(n)[1])]


@pytest.mark.parametrize("name", PRINTED)
def test_every_table_of_seal_has_its_layout_its_values_and_its_claims(name: str) -> None:
    paper = load(name)
    assert paper.laid_out
    assert paper.axes
    assert len(paper.claims) >= 4
    assert all(claim.says and claim.section for claim in paper.claims)
    for claim in paper.claims:
        for comparison in claim.compare:
            assert list(comparison.pairs({a: tuple(v) for a, v in paper.names.items()}, paper.where))


def test_what_is_right_has_no_mistakes() -> None:
    assert check_claims([CLAIM], NAMES, "claims") == []
    assert check_claims(changed(right=0.3), NAMES, "claims") == []
    assert check_claims(changed(right={"dataset": ["mnist"]}, left={"omega": 0.1, "metric": "ssim"}), NAMES, "c") == []


@pytest.mark.parametrize(
    ("compare", "where", "what"),
    [
        ({"is": "bellow"}, "is", "did you mean 'below'?"),
        ({"right": "twn"}, "right", "did you mean 'twin'?"),
        ({"right": None}, "right", "expected twin, a number or axes"),
        ({"right": {}}, "right", "differs from the left in nothing"),
        ({"right": True}, "right", "expected twin, a number or axes"),
        ({"right": float("nan")}, "right", "expected twin, a number or axes"),
        ({"factor": "a quarter"}, "factor", "expected a number"),
        ({"fctor": 1}, "fctor", "did you mean 'factor'?"),
        ({"margin": 0.1}, "margin", "goes with within"),
        ({"left": {"attack": "each"}}, "left", "does not say which metric"),
        ({"left": {"attak": "each", "metric": "ssim"}}, "left.attak", "did you mean 'attack'?"),
        ({"left": {"attack": "frosha", "metric": "ssim"}}, "left.attack", "no attack named 'frosha'"),
        ({"left": {"attack": [], "metric": "ssim"}}, "left.attack", "an empty list asks nothing"),
        ({"left": {"attack": ["fsha", "unspilt"], "metric": "ssim"}}, "left.attack[1]", "did you mean 'unsplit'?"),
        ({"left": {"defense": "each", "metric": "ssim"}}, "left.defense", "`names` has nothing"),
        ({"left": {"attack": {"mean": "all"}, "metric": "ssim"}}, "left.attack", "expected {mean: [values]}"),
        ({"left": {"knowledge": "all", "metric": "ssim"}}, "left.knowledge", "no knowledge named 'all'"),
        ({"left": {"protected": "ten", "metric": "ssim"}}, "left.protected", "expected a count"),
        ({"left": "ssim"}, "left", "expected axes"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_comes_nearest(compare: Any, where: str, what: str) -> None:
    found = check_claims(changed(**compare), NAMES, "claims")
    assert [m for m in found if m.where == f"claims[0].compare.{where}" and what in m.what], found


def test_within_takes_a_margin_and_nothing_else() -> None:
    found = check_claims(changed(**{"is": "within"}), NAMES, "claims")
    assert {m.what for m in found} == {"`within` takes a `margin` above 0", "goes with below or above, not with within"}


def test_an_id_is_used_once_and_nothing_may_be_missing() -> None:
    found = check_claims([CLAIM, CLAIM, {"id": "b"}, 3], NAMES, "claims")
    assert [m.where for m in found] == ["claims[1].id", *["claims[2]"] * 3, "claims[3]"]


WORDS = ["left", "is", "right", "attack", "metric", "mean", "rows", "names", "best", "id", "along", "where", "values",
         "axes", "claims", "compare", "omega"]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["each", "mean", "seal", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_whatever_stands_there_is_read_or_refused_but_never_breaks(block: Any) -> None:
    if not check(block):
        from splitbench.plan.paper import read as read_paper

        read_paper(block, "r", "t")
    assert isinstance(check_claims(block, NAMES, "claims"), list)
    assert isinstance(check_claims([{**CLAIM, "compare": block}], NAMES, "claims"), list)


def test_a_comparison_asks_one_question_for_each_combination() -> None:
    [claim] = read(changed(left={"attack": "each", "dataset": ["mnist", "cifar10"], "metric": "ssim"}))
    pairs = list(claim.compare[0].pairs(NAMES, {"defense": "seal"}))
    assert [(left[0]["attack"], left[0]["dataset"]) for left, _ in pairs] == [
        ("fsha", "mnist"), ("fsha", "cifar10"), ("fora", "mnist"), ("fora", "cifar10")]  # fmt: skip
    assert all(left[0]["defense"] == "seal" and right == "twin" for left, right in pairs)


def test_a_mean_is_one_question_and_the_right_differs_only_where_it_says() -> None:
    left = {"attack": "mean", "dataset": "mnist", "metric": "ssim"}
    [claim] = read(changed(left=left, right={"dataset": {"mean": ["cifar10"]}}))
    [(ours, theirs)] = claim.compare[0].pairs(NAMES, {})
    assert [(at["attack"], at["dataset"]) for at in ours] == [("fsha", "mnist"), ("fora", "mnist")]
    assert [(at["attack"], at["dataset"]) for at in theirs] == [("fsha", "cifar10"), ("fora", "cifar10")]  # type: ignore[union-attr,index]


def test_numbers_are_the_same_however_they_are_written() -> None:
    assert plain(1) == plain(1.0) == plain("1.0") == "1"
    assert plain(True) == "true"
    assert plain("seal") == "seal"


BROKEN = """
title: T
defenses: [none]
attacks: [blak]
paper:
  table: 9
  rows: [atack]
  columns: [dataset]
  captoin: c
  names:
    dataset: {mnst: MNIST}
  also: [seal/tabel2]
  best: {along: attack}
"""


def test_a_recipe_tells_its_mistakes_and_those_of_its_paper_block_at_once_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(BROKEN)
    with pytest.raises(SplitbenchError) as raised:
        Recipe.load(path)
    said = {(m.where, m.line): m.what for m in raised.value.mistakes}
    assert "did you mean 'black'?" in said["attacks[0]", 4]
    assert "did you mean 'attack'?" in said["paper.rows[0]", 7]
    assert "did you mean 'caption'?" in said["paper.captoin", 9]
    assert "did you mean 'mnist'?" in said["paper.names.dataset.mnst", 11]
    assert "did you mean 'seal/table2'?" in said["paper.also[0]", 12]
    assert "expected {along: an axis, metric: a metric}" in said["paper.best", 13]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"columns": None}, "both rows and columns"),
        ({"columns": ["attack", "metric"]}, "in the rows too"),
        ({"where": {"attack": "fsha"}}, "an axis of the table as well"),
        ({"names": {"attack": {"fsha": "FSHA"}}}, "does not say what stands on the axis 'metric'"),
        ({"columns": ["dataset"], "names": {"attack": {}, "dataset": {}}}, "the metric is neither"),
        ({"best": {"along": "omega", "metric": "ssim"}}, "'omega' is no axis of the table"),
        ({"values": {"fsha": {"ssim": "high"}}}, "expected a number or null"),
        ({"values": {"fsa": 0.3}}, "expected values by metric"),
        ({"values": {"fshaa": {"ssim": 0.3}}}, "did you mean 'fsha'?"),
        ({"percent": "yes"}, "expected true or false"),
    ],
)
def test_a_layout_must_fit_together(change: dict[str, Any], what: str) -> None:
    block: dict[str, Any] = {
        "rows": ["attack"], "columns": ["metric"], "axes": ["attack", "metric"],
        "names": {"attack": {"fsha": "FSHA"}, "metric": {"ssim": "SSIM"}}, "values": {"fsha": {"ssim": 0.5}},
    }  # fmt: skip
    assert check(block) == []
    block = {k: v for k, v in {**block, **change}.items() if v is not None}
    assert any(what in m.what for m in check(block)), check(block)


def test_a_value_is_found_by_its_coordinates_and_only_where_it_belongs() -> None:
    paper = load("seal/table5")
    at = {"attack": "fsha", "dataset": "mnist", "defense.seal.omega": "0.4", "metric": "ssim", "defense": "seal"}
    assert paper.value(at) == 0.082
    assert paper.value({**at, "defense.seal.omega": "0.7"}) is None
    assert paper.value({**at, "defense": "dcor"}) is None
    assert load("seal/table2").value({**at, "defense.seal.omega": "0.7"}) is None, "empty in the paper"


def test_the_recipe_files_hold_the_claims_as_plain_data() -> None:
    text = (recipes.folder() / "seal" / "table3.yaml").read_text(encoding="utf-8")
    assert {c["id"] for c in yaml.safe_load(text)["paper"]["claims"]} >= {"dct-drop", "secret-helps", "never-perfect"}
