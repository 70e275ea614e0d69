"""A table in its paper's own layout: ours and the paper's values, what is best, and every gap."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.report.claims.judge import claims
from splitbench.report.claims.scorecard import scorecard
from splitbench.report.tables import render
from splitbench.report.tables.paper_table import PaperTable, paper_table
from splitbench.store.outcome import Outcome
from tests.conftest import Command
from tests.report._rows import Rows, values
from tests.report.test_claims import SEAL, filled

RESULTS = Path(__file__).parents[2] / "results"
LAID_OUT = [f"seal/table{n}" for n in (1, 2, 3, 5, 6)]


def cells(made: PaperTable, row: str) -> list[str]:
    sheet = made.sheet()
    [i] = [i for i, name in enumerate(sheet.rows) if name[0] == row]
    return [c.text + c.after for c in sheet.cells[i]]


# As the paper prints them.
PRINTED = {
    "seal/table1": ["| no-defense | 94.6 | 94.6 | 94.6 | 94.6 |", "| all-clients | 93.4 | 80.6 | 80.2 | 40.7 |",
                    "| 1-client | 94.1 | 85.7 | 83.8 | 72.2 |"],
    "seal/table2": ["| UnSplit | 76.8 | 10.9 | 96.7 | 13.5 | 91.2 | 12.5 | 57.3 | 12.2 |",
                    "| FORA | – | – | – | – | – | – | – | – |"],
    "seal/table3": ["| FSHA | DCT | 64.3 | 6.6 | 82.0 | 6.7 | 76.7 | 7.6 | 50.4 | 6.4 |",
                    "|  | f | 69.2 | 70.7 | 84.7 | 74.8 | 80.8 | 81.3 | 49.6 | 87.9 |"],
    "seal/table5": ["| FSHA | CIFAR-10 | 71.2 | 90.3 | 71.4 | 50.2 | 35.9 | 6.2 | 33.3 | 5.4 |",
                    "|  | MNIST | 98.9 | 98.1 | 97.8 | 55.4 | 65.1 | 7.9 | 59.8 | 7.6 |"],
    "seal/table6": ["|  | ImageNet | 59.7 | 91.0 | 57.2 | 40.1 | 37.8 | 7.9 | 30.3 | 6.5 |"],
}  # fmt: skip


@pytest.mark.parametrize("recipe", LAID_OUT)
def test_the_papers_side_is_the_papers_table_and_needs_no_store(recipe: str, tmp_path: Path) -> None:
    lines = render.markdown(paper_table(recipe, store=tmp_path / "nowhere", side="paper")).splitlines()
    for line in PRINTED[recipe]:
        assert line in lines


def test_ours_stands_beside_the_papers(tmp_path: Path) -> None:
    filled(tmp_path)
    both, ours = (cells(paper_table("seal/table2", store=tmp_path, side=s), "UnSplit") for s in ("both", "ours"))  # type: ignore[arg-type]
    assert both[0] == "89.0 [76.8]"
    assert both[1].startswith("11.0= ±")
    assert both[1].endswith(" [10.9]")
    assert ours[0] == "89.0"
    assert "[" not in ours[1]
    assert cells(paper_table("seal/table2", store=tmp_path), "FSHA")[0] == "89.0 [–]"
    beside = paper_table("seal/table2", store=tmp_path, undefended=True)
    assert cells(beside, "UnSplit")[0] == "89.0 (90.0) [76.8]"
    assert cells(beside, "UnSplit")[1].endswith(" (90.0) [10.9]")
    assert "in parentheses the same on the undefended twin" in beside.caption


def test_one_value_has_no_interval_and_several_seeds_have_theirs(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for seed in range(3):
        rows.attack("fsha", (0.1 + 0.1 * seed,), samples=(1,), seed=seed, **SEAL)
    rows.attack("fora", (0.3,), samples=(1,), **SEAL)
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path, side="ours", where={"dataset": "cifar10"})
    assert cells(made, "FSHA")[1] == "20.0= ±24.8"  # t of two degrees of freedom times the standard error
    assert cells(made, "FORA")[1] == "30.0=", "nobody knows how sure it is"


def test_the_best_is_bold_only_where_it_can_be_told_and_equals_are_marked(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for i, (name, ssim) in enumerate((("fsha", 0.3), ("fora", 0.2), ("sdar", 0.1), ("oracle_decoder", 0.9))):
        rows.attack(name, values(ssim, 1), **SEAL)
        rows.attack(name, values(0.295 if name == "sdar" else ssim, i), dataset="mnist", **SEAL)
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path, metric="ssim")
    marks = {(v.at["attack"], v.at["dataset"]): v.mark for v in made.values.values() if v.mark}
    assert marks == {("fsha", "cifar10"): "best", ("fsha", "mnist"): "tie", ("sdar", "mnist"): "tie"}
    assert "**30.0 ±" in render.markdown(made)
    assert "** [–] | 30.0= ±" in render.markdown(made), "the paper's value is never bold"
    assert any("not separable from the best" in note for note in made.notes)
    assert r"\textbf{30.0" in render.latex(made)
    assert "<strong>30.0" in render.html(made)


def test_the_best_defense_keeps_the_most_accuracy(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.train(0.946, clients=10)
    for defense, accuracy in (("seal", 0.93), ("nopeek", 0.8), ("dcor", 0.81), ("dpsg", 0.5)):
        rows.train(accuracy, clients=10, defense=defense)
    rows.plan("seal/table1")
    made = paper_table("seal/table1", store=tmp_path)
    assert [v.mark for v in made.values.values() if v.at["protected"] == "10"] == ["best", "", "", ""]
    assert cells(made, "no-defense") == ["94.6 [94.6]"] * 4, "undefended is undefended whatever is in the column"
    assert cells(made, "7-clients")[0] == "– [93.7]", "all that was planned is run"
    assert "– not planned at this scale: 16 of 24 values" in made.notes
    rows.keys.append("to come")
    rows.plan("seal/table1")
    assert cells(paper_table("seal/table1", store=tmp_path), "7-clients")[0] == "not run [93.7]"


def test_every_gap_is_seen_and_told(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for name in ("fsha", "fsa", "fora"):
        rows.attack(name, 0.4, bar=0.7)
    rows.attack("fsha", 0.1, bar=0.7, **SEAL)
    rows.attack("fsa", 0.1, status="failed", reason="the loss became nan", **SEAL)
    rows.attack("fora", 0.1, status="skipped", reason="needs auxiliary=1000", **SEAL)
    rows.keys.append("never")
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path, metric="ssim", where={"dataset": "cifar10"})
    assert cells(made, "FSHA")[0].startswith("10.0?")
    assert [cells(made, name)[0].split(" [")[0] for name in ("FSA", "FORA", "SDAR")] == ["failed", "skipped", "not run"]
    notes = "\n".join(made.notes)
    for said in ("? uncalibrated: undefended, fsha reaches ssim 0.400; its bar is 0.7 (FSHA CIFAR-10 SSIM ↓)",
                 "failed: the loss became nan (FSA", "skipped: needs auxiliary=1000", "not run: 2 of 5 values",
                 "1 of 7 cells are not run yet"):  # fmt: skip
        assert said in notes
    assert "scale desk" in made.caption


def test_a_seed_that_is_not_run_breaks_the_mean(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.attack("fsha", 0.1, **SEAL)
    rows.plan("seal/table2", seeds=[0, 1])
    made = paper_table("seal/table2", store=tmp_path, where={"dataset": "cifar10"}, metric="ssim")
    assert cells(made, "FSHA") == ["not run [–]"]
    assert any("not run: seed 1" in note for note in made.notes)


def test_cells_may_be_planned_with_seeds_of_their_own(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for seed in (0, 1):
        rows.attack("fsha", values(0.1, seed), seed=seed, **SEAL)
    rows.attack("fsha", values(0.2, 2), dataset="mnist", **SEAL)
    rows.attack("fsha", values(0.3, 3), dataset="fashion_mnist", **SEAL)
    rows.plan("seal/table2", seeds=[[0, 1], [0, 1], [0], [0, 2]])
    made = paper_table("seal/table2", store=tmp_path, metric="ssim", side="ours")
    several, one, lacking, never = cells(made, "FSHA")
    assert several.startswith("10.0")
    assert one.startswith("20.0")
    assert (lacking, never) == ("not run", "–")
    assert any("not run: seed 2 (FSHA FMNIST" in note for note in made.notes)
    assert f"± 95 % over 2 seeds, over {len(values(0.2, 2))} images where one was run" in made.caption


def test_floors_bounds_and_other_data_sets_stand_below_and_beside(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.attack("fsha", 0.3, **SEAL)
    rows.attack("mean_image", 0.1, **SEAL)
    rows.attack("mean_image", 0.2, dataset="fashion_mnist_mini", **SEAL)
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path, metric="ssim")
    assert made.rows[-1] == ("mean_image",)
    assert made.columns[-1] == ("fashion_mnist_mini", "ssim")


def test_knowing_more_and_recovering_less_is_marked(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for rung, ssim in (("none", 0.5), ("family", 0.1), ("exact", 0.8)):
        rows.attack("fsha", ssim, knowledge=rung, **SEAL)
    rows.plan("seal/table3")
    made = paper_table("seal/table3", store=tmp_path, metric="ssim", where={"dataset": "cifar10"}, side="ours")
    sheet = made.sheet()
    texts = {row: cells[0].text for row, cells in zip(sheet.rows, sheet.cells, strict=True)}
    assert texts["FSHA", "DCT"].startswith("10.0†")
    assert texts["FSHA", "f"].startswith("80.0")
    assert "†" not in texts["FSHA", "f"]
    assert texts["FSHA", "none"].startswith("50.0"), "a rung that the paper's table does not have"


def test_omegas_are_columns(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    for omega in (1.0, 0.9, 0.4):
        rows.attack("fsha", omega, defense="seal", settings={"omega": omega})
    rows.plan("seal/table5")
    made = paper_table("seal/table5", store=tmp_path, metric="ssim", where={"dataset": "cifar10"}, side="ours")
    assert [c.split(" ±")[0] for c in cells(made, "FSHA")] == ["100.0", "90.0", "40.0", "–"]


def test_the_papers_values_are_not_lent_to_another_question(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.attack("unsplit", 0.3, defense="seal", settings={"omega": 0.9})
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path, where={"omega": "0.9", "dataset": "cifar10"}, metric="ssim")
    assert cells(made, "UnSplit")[0].startswith("30.0")
    assert cells(made, "UnSplit")[0].endswith("[–]"), "the paper's 10.9 is about 0.7"
    assert cells(paper_table("seal/table2", side="paper", metric="psnr"), "UnSplit") == ["–"] * 4
    assert not paper_table("seal/table1", side="paper", metric="mcc").paper.percent


class Heads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.widths: list[int] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.widths.append(0)
        if tag in ("th", "td"):
            self.widths[-1] += int(dict(attrs).get("colspan") or 1)
        if tag not in ("br",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("recipe", LAID_OUT)
def test_every_format_has_every_value(recipe: str, tmp_path: Path) -> None:
    made = paper_table(recipe, side="paper")
    records = list(csv.DictReader(io.StringIO(render.comma_separated(made))))
    assert len(records) == len(made.rows) * len(made.columns) == len(render.data(made)["entries"])
    assert [float(r["paper"]) for r in records if r["paper"]] == [e["paper"] for e in render.data(made)["entries"]
                                                                 if e["paper"] is not None]  # fmt: skip
    json.dumps(render.data(made))
    heads = Heads()
    heads.feed(render.html(made))
    assert not heads.open
    assert len(made.columns) == sum(n for _, n in [(c, 1) for c in made.columns])
    assert max(heads.widths) == len(made.sheet().corner) + len(made.columns)
    assert render.markdown(made) == render.markdown(paper_table(recipe, side="paper")), "the same bytes every time"


def test_names_and_values_are_escaped(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.attack("fsha", 0.3, status="failed", reason="<script>alert(1)</script> & 50% of $x_1$ \\ ∂", **SEAL)
    rows.plan("seal/table2")
    made = paper_table("seal/table2", store=tmp_path)
    assert "<script>" not in render.html(made)
    assert r"\& 50\% of \$x\_1\$ \textbackslash{} [U+2202]" in render.latex(made)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_the_latex_compiles_as_it_is(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    rows = Rows(tmp_path / "odd")
    rows.attack("fsha", 0.3, status="failed", reason="α ≤ β: 50% of {x}_1 & ~^\\ “quoted” §2 ∂ é|<>\n#", **SEAL)
    rows.plan("seal/table2")
    shown = [
        *(paper_table(recipe, side="paper") for recipe in LAID_OUT),
        paper_table("seal/table2", store=tmp_path / "store"),
        paper_table("seal/table2", store=tmp_path / "odd"),
        scorecard(claims("seal/table2", store=tmp_path / "store")[0]),
    ]
    committed = [path.read_text(encoding="utf-8") for path in sorted(RESULTS.rglob("*.tex"))]
    assert committed
    body = "\n\\clearpage\n".join([*map(render.latex, shown), *committed])
    document = "\\documentclass{article}\n\\usepackage{booktabs,graphicx,array}\n\\begin{document}\n"
    (tmp_path / "t.tex").write_text(document + body + "\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 10_000


def test_a_recipe_of_ones_own_keeps_its_layout_in_the_store(splitbench: Command, tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.attack("fsha", 0.3)
    block = {"where": {"metric": "ssim"}, "rows": ["attack"], "columns": ["dataset"], "percent": True,
             "names": {"attack": {"fsha": "FSHA"}, "dataset": {"cifar10": "C"}}}  # fmt: skip
    rows.plan("mine", paper=block)
    said = splitbench("table", "mine", "--store", tmp_path, "--format", "markdown")
    assert "| FSHA | 30.0 ±1.8 |" in said.out


def test_numbers_that_are_keys_come_back_from_the_store(splitbench: Command, tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.train(0.9, clients=10, defense="seal", protected=7)
    block = {"where": {"metric": "accuracy", "defense": "seal"}, "rows": ["protected"], "columns": ["omega"],
             "names": {"protected": {7: "seven"}, "omega": {0.5: "half"}}, "axes": ["protected", "omega"],
             "values": {7: {0.5: 0.8}}}  # fmt: skip
    rows.plan("mine", paper=block)
    said = splitbench("table", "mine", "--store", tmp_path, "--format", "markdown")
    assert "| seven | – [0.800] |" in said.out, said.err


def test_bad_questions(splitbench: Command, tmp_path: Path) -> None:
    filled(tmp_path)
    for arguments, said in (
        (("seal/tabel2", "--paper-only"), "did you mean 'seal/table2'?"),
        (("quickstart", "--paper-only"), "no paper's table"),
        (("--paper-only",), "about the table of a recipe"),
        (("seal/table2", "--paper-only", "--ours-only"), "leave nothing"),
        (("seal/table3",), "--paper-only shows what the paper prints"),
        (("seal/table2", "--where", "datset=mnist"), "did you mean 'dataset'?"),
        (("seal/table2", "--where", "dataset"), "--where takes key=value"),
        (("seal/table2", "--where", "dataset=mnits"), "no data set named 'mnits'; did you mean 'mnist'?"),
        (("seal/table2", "--metric", "sim"), "no metric or cost named 'sim'; did you mean 'ssim'?"),
        (("--metric", "sim"), "no metric or cost named 'sim'; did you mean 'ssim'?"),
        (("seal/table2", "--scale", "smoke"), "at scale desk, not smoke"),
    ):
        answer = splitbench("table", *arguments, "--store", tmp_path)
        assert answer.code == 2, arguments
        assert said in answer.err


def test_the_free_question_is_asked_of_the_same_rows(splitbench: Command, tmp_path: Path) -> None:
    filled(tmp_path)
    arguments = ("seal/table2", "--rows", "attack", "--cols", "dataset", "--store", tmp_path, "--format", "markdown")
    said = splitbench("table", *arguments)
    assert "| attack | cifar10 | mnist | fashion_mnist | tiny_imagenet |" in said.out


def test_damage_of_every_kind_is_named_and_the_rest_is_shown(splitbench: Command, tmp_path: Path) -> None:
    rows = filled(tmp_path)
    folder = tmp_path / "outcomes"
    names = sorted(p.name for p in folder.glob("*.parquet"))
    old, short, rest = names[0], names[1], names[2:]
    table = pq.ParquetFile(folder / old).read()
    aged = table.set_column(0, table.schema.field("schema"), pa.array([0], pa.int32()))
    pq.write_table(aged, folder / old)
    (folder / short).write_bytes((folder / short).read_bytes()[:-40])
    (folder / "foreign.parquet").write_bytes((folder / rest[0]).read_bytes()[:4])
    pq.write_table(table.drop_columns(["bars"]), folder / "older.parquet")
    run = Outcome.read(folder / "cifar10-none-None-0.parquet").run
    for one in {Outcome.read(folder / name).run for name in rest} - {run}:
        (tmp_path / "trained" / one).mkdir(parents=True)
    (tmp_path / "plans" / "broken@desk.json").write_text("{")
    for command in (("table", "seal/table2"), ("table",), ("claims", "seal/table2")):
        said = splitbench(*command, "--store", tmp_path)
        assert said.code == 0
        assert f"{old} cannot be read: schema 0, this version of splitbench reads 2" in said.err
        assert f"{short} cannot be read" in said.err
        assert "foreign.parquet cannot be read" in said.err
        assert "older.parquet cannot be read: not an outcome of splitbench: no bars" in said.err
        assert f"gone from {tmp_path / 'trained'}: {run}" in said.err.replace("\n", " ").replace("  ", " ")
    assert "89.0" in splitbench("table", "seal/table2", "--store", tmp_path).out
    answer = splitbench("table", "broken", "--store", tmp_path)
    assert answer.code == 2
    assert "broken@desk.json cannot be read" in answer.err
    assert rows.keys


def test_there_are_recipes_with_layouts() -> None:
    assert set(LAID_OUT) <= set(recipes.names())
    with pytest.raises(SplitbenchError, match="no paper's table"):
        paper_table("quickstart")
