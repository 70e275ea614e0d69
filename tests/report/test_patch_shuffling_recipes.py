"""The recipes of the patch shuffling paper: every printed value and claim is there, and what a claim asks is run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from splitbench.edge.recipe import ProfileRecipe
from splitbench.plan import recipes
from splitbench.plan.paper import Paper, load
from splitbench.plan.recipe import Recipe
from splitbench.report.claims.judge import Scored, judge
from splitbench.report.statistics.measured import Rows
from splitbench.report.tables import render
from splitbench.report.tables.paper_table import paper_table
from tests.conftest import Command

PRINTED = {"table1": 49, "table2": 15, "table3": 6, "table4": 32, "table5": 15, "table6": 8, "table7": 24,
           "table8": 20, "table9": 25}  # fmt: skip
# Of 44 claims: about one's own role, counts of permutations (`splitbench account permutations`), or pictures.
NOT_OF_ROWS = {"no-backward", "sigma-private", "batch-sigma-private", "more-permutations", "smaller-share", "outlines",
               "k-best"}  # fmt: skip
GALLERIES = {"figure6": "table1", "figure7": "table2", "figure9": "table4", "figure12": "table7", "figure13": "table8",
             "figure14": "table8", "figure15": "table9"}  # fmt: skip
NAMES = [name for name in recipes.names() if name.startswith("patch_shuffling/")]
RUN = [name for name in NAMES if not recipes.counts_only(recipes.find(name)[1])]
SHARED = Path(__file__).parents[3] / "shared" / "papers" / "values" / "patch_shuffling.yaml"
METRICS = {"acc": "accuracy", "mcc": "mcc_pooled", "fsim": "f_sim", "id": "identification"}
METHODS = {"SL": "none", "SL/ Adv": "none", "Adv": "adversarial", "Blur": "blur", "DP": "dp_gaussian", "GN": "gaussian",
           "Our PS": "patch_shuffle", "Our BS": "batch_shuffle", "Our BS 75": "batch_shuffle",
           "Our PS+": "spectral_shuffle"}  # fmt: skip


def leaves(values: Any) -> Iterator[float]:
    for value in values.values():
        if isinstance(value, Mapping):
            yield from leaves(value)
        elif value is not None:
            yield float(value)


def printed(table: str) -> Any:
    _, path = recipes.find(f"patch_shuffling/{table}")
    return yaml.safe_load(path.read_text(encoding="utf-8"))["paper"]["values"]


@pytest.mark.parametrize("table", PRINTED)
def test_every_value_that_the_paper_prints_is_in_its_recipe(table: str) -> None:
    assert len(list(leaves(printed(table)))) == PRINTED[table]


def test_the_paper_prints_194_values() -> None:
    assert sum(PRINTED.values()) == 194


def _theirs(table: Mapping[str, Any]) -> dict[tuple[str, ...], float]:
    """By what stands on the axes of our recipe, accuracy as a share."""
    found: dict[tuple[str, ...], float] = {}
    pairs = {"public celeba, private lfw": "celeba", "public lfw, private celeba": "lfw"}
    for key, row in table["values"].items():
        rows = row.items() if table["id"] == "table8" else [("", row)]
        for inner, cells in rows:
            for metric, value in cells.items():
                mine = METRICS.get(metric, metric)
                if table["id"] == "table3" and metric == "mse":
                    mine = "field_mse"
                place: tuple[str, ...]
                if table["id"] == "table4":
                    jigsaw = key.startswith("Jigsaw")
                    place = ("celeba", "jigsaw" if jigsaw else "as_sent", "batch_shuffle" if jigsaw else METHODS[key])
                elif table["id"] == "table5":
                    place = ("celeba", {"1000": "1", "20000": "6"}.get(str(key), "last"))
                elif table["id"] == "table7":
                    place = ("celeba", str(key))
                elif table["id"] == "table8":
                    place = (pairs[key], METHODS[inner])
                else:
                    place = ({"table2": "cifar10", "table3": "criteo"}.get(table["id"], "celeba"), METHODS[key])
                found[(*place, mine)] = round(value / 100, 8) if metric == "acc" else float(value)
    return found


def _ours(values: Mapping[Any, Any], before: tuple[str, ...] = ()) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for key, value in values.items():
        place = (*before, str(key))
        found |= _ours(value, place) if isinstance(value, Mapping) else {place: float(value)}
    return found


@pytest.mark.skipif(not SHARED.is_file(), reason="the proofread values are not beside the project")
@pytest.mark.parametrize("table", PRINTED)
def test_every_value_is_the_printed_one(table: str) -> None:
    paper = yaml.safe_load(SHARED.read_text(encoding="utf-8"))
    [theirs] = [t for t in paper["tables"] if t["id"] == table]
    ours = _ours(printed(table))
    if table == "table6":
        assert ours == {
            (row, mine): round(cells[metric] * factor)
            for row, cells in theirs["values"].items()
            for metric, mine, factor in (("macc_edge", "macs_forward", 1e6), ("mem_edge", "memory_peak", 1e9))
        }
        return
    if table == "table5":
        last = max(int(epochs) for _, epochs, _ in ours)
        ours = {(d, "last" if int(e) == last else e, m): value for (d, e, m), value in ours.items()}
    assert ours == _theirs(theirs)


def claimed() -> dict[str, str]:
    """Each claim, and the recipe it belongs to."""
    return {claim.id: name for name in RUN for claim in load(name).claims}


def test_every_claim_is_judged_once_or_known_to_be_none_of_rows() -> None:
    assert len([c for name in RUN for c in load(name).claims]) == len(claimed()) == 44 - len(NOT_OF_ROWS)
    assert not set(claimed()) & NOT_OF_ROWS


@pytest.mark.skipif(not SHARED.is_file(), reason="the proofread claims are not beside the project")
def test_every_claim_is_the_papers() -> None:
    theirs = {c["id"]: c for c in yaml.safe_load(SHARED.read_text(encoding="utf-8"))["claims"]}
    assert set(claimed()) | NOT_OF_ROWS == set(theirs)
    for name in RUN:
        for claim in load(name).claims:
            assert (claim.says, claim.section) == (theirs[claim.id]["says"], theirs[claim.id]["section"])


def judged(recipe: str) -> dict[str, Scored]:
    paper = load(recipe)
    found = judge(paper, Rows([], []), [load(other) for other in paper.also])
    return {scored.claim.id: scored for scored in found}


# What the paper's own cells say of its claims, as they were read by hand.
FAIL = {"transform-private", "strongest", "k-tradeoff"}
HOLD = {"defends-all", "superior", "accuracy-kept", "spectral-equivalent", "tradeoffs-differ", "good-utility",
        "baselines-leak", "dp-privacy", "dp-utility", "spectral-removes-faces", "another-face", "natural-images",
        "criteo-gn-accuracy", "criteo-gn-leaks", "criteo-accuracy", "jigsaw-fails", "adv-only-converged",
        "rounds-no-help", "public-data", "public-data-switched", "pix2pix-destroyed", "worst-case",
        "competitive"}  # fmt: skip


def test_a_claim_is_said_as_the_papers_own_values_answer_it() -> None:
    found = {id: scored.paper for name in set(claimed().values()) for id, scored in judged(name).items()}
    assert {id for id, verdict in found.items() if verdict == "fails"} == FAIL
    assert {id for id, verdict in found.items() if verdict == "holds"} == HOLD
    assert {id for id, verdict in found.items() if verdict is None} == set(found) - FAIL - HOLD


@pytest.fixture
def planned(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Recipe]:
    monkeypatch.setenv("SPLITBENCH_DATA", str(shared_data))
    return _planned


@functools.cache
def _planned(name: str) -> Recipe:
    return Recipe.load(recipes.find(f"patch_shuffling/{name}")[1])


@pytest.mark.parametrize("figure", GALLERIES)
def test_a_gallery_has_cells_of_its_table(figure: str, planned: Callable[[str], Recipe]) -> None:
    drawn, table = planned(figure), planned(GALLERIES[figure])
    assert {cell.key for cell in drawn.cells} <= {cell.key for cell in table.cells}


def test_figure_11_shows_the_trainings_of_table_1(planned: Callable[[str], Recipe]) -> None:
    drawn, table = planned("figure11"), planned("table1")
    assert len(drawn.cells) == 9
    assert {cell.key for cell in drawn.cells} <= {cell.key for cell in table.cells}


def test_trainings_are_shared_between_the_tables(planned: Callable[[str], Recipe]) -> None:
    """Table 4 attacks what table 1 trained."""
    of_table1 = {cell.run.key for cell in planned("table1").cells}
    for name in ("table4", "table9", "figure6"):
        assert {cell.run.key for cell in planned(name).cells} <= of_table1, name


@pytest.mark.parametrize("name", [n for n in RUN if "/table" in n or n.endswith(("figure5", "figure10", "figure11"))])
def test_nothing_else_stands_where_a_claim_looks(name: str, planned: Callable[[str], Recipe]) -> None:
    """Every side of every comparison is one cell for each seed: no ambiguity, no gap."""
    paper = load(name)
    several = [planned(other.removeprefix("patch_shuffling/")) for other in (name, *paper.also)]
    cells = {cell.key: cell for recipe in several for cell in recipe.cells}
    for side in _sides(paper):
        stands = [cell for cell in cells.values() if _stands(cell, paper.meant(side))]
        assert stands, side
        assert len({_seedless(cell) for cell in stands}) == 1, side


def _sides(paper: Paper) -> Iterator[dict[str, str]]:
    names = {axis: tuple(values) for axis, values in paper.names.items()}
    for claim in paper.claims:
        for comparison in claim.compare:
            for left, right in comparison.pairs(names, paper.where):
                yield from left
                if isinstance(right, list):
                    yield from right


def _stands(cell: Any, at: Mapping[str, str]) -> bool:
    """As `Rows.find` has it, of a cell that was not run."""
    from splitbench.report.statistics.axis_values import value_on
    from splitbench.report.statistics.measured import is_about_the_adversary

    wanted = {axis: value for axis, value in at.items() if axis != "metric"}
    if wanted.get("defense") == "none":
        wanted = {a: v for a, v in wanted.items() if not a.startswith("defense.")}
    if (cell.attack is not None) != any(map(is_about_the_adversary, wanted)):
        return False
    row: Any = _Row(cell)
    return all((value_on(row, axis) or "") == value for axis, value in wanted.items())


class _Row:
    """What `value_on` asks of an outcome."""

    def __init__(self, cell: Any) -> None:
        self.cell = cell.document() if cell.attack else {"run": cell.run.document()}
        self.dataset, self.model, self.cut = cell.run.data.name, cell.run.model.name, cell.run.cut
        self.attack_name = cell.attack.name if cell.attack else ""
        self.clients, self.knowledge = cell.run.clients, ""


def _seedless(cell: Any) -> str:
    document = cell.document()
    return str({**document, "run": {**document["run"], "seed": None}})


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("table1", "| CelebA | SL | 91.05 | 0.727 | 0.014 | 0.670 | 18.64 | 0.925 | 0.9090 | – | – |"),
        ("table2", "|  | Our BS 75 | 96.16 | 0.730 | 1.463 | 0.084 | 0.513 | – | – |"),
        ("table3", "|  | Our PS | 77.78 | 0.0015 |"),
        ("table4", "|  | Jigsaw + white-box | Our BS | 0.871 | 0.0007 | 0.60 | 0.132 | – | – |"),
        ("table5", "|  | Converged | 0.373 | 0.042 | 4.29 | 0.117 | 0.0001 |"),
        ("table7", "|  | k = 0.15 | 88.76 | 0.184 | 0.178 | 7.35 | 0.180 | 0.0002 |"),
        ("table8", "| public LFW, private CelebA | SL | 0.086 | 0.342 | 10.75 | 0.650 | 0.1274 |"),
        ("table9", "|  | Our PS+ | 0.265 | 0.117 | 5.82 | 0.117 | 0.0002 |"),
    ],
)
def test_the_papers_side_is_the_papers_table(table: str, line: str) -> None:
    lines = render.markdown(paper_table(f"patch_shuffling/{table}", side="paper")).splitlines()
    assert line in lines
    rows = {"table1": 7, "table2": 3, "table3": 3, "table4": 8, "table5": 3, "table7": 4, "table8": 4, "table9": 5}
    assert sum(one.startswith("| ") for one in lines) - 2 == rows[table], lines


def test_table_6_profiles_the_papers_network() -> None:
    _, path = recipes.find("patch_shuffling/table6")
    recipe = ProfileRecipe.load(path)
    assert list(recipe.cases) == ["SL / Transform", "Adv", "Our PS/BS", "Our PS+"]
    assert {case.model.name for case in recipe.cases.values()} == {"t2t_vit"}
    assert set(recipe.paper) == set(recipe.cases)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_every_recipe_runs_at_the_smoke_scale(
    name: str, splitbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name == "patch_shuffling/table3":  # no table is in the package
        monkeypatch.setenv("SPLITBENCH_DATA", str(request.getfixturevalue("shared_data")))
    said = splitbench("run", name, "--scale", "smoke", "--store", str(tmp_path))
    assert said.code == 0, said.err
