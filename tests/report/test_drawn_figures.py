"""Figures that a paper's block describes: what stands on each line is what the block says, drawn without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file

from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import generator
from splitbench.plan.claim import read
from splitbench.plan.paper import Paper
from splitbench.report import positions as embeddings
from splitbench.report.claims.judge import judge
from splitbench.report.drawn_rows import drawn_rows
from splitbench.report.figure import draw
from splitbench.report.gallery_figure import gallery
from splitbench.report.loss_figure import draw_losses, losses
from splitbench.report.position_figure import draw_positions, mosaic, positions
from splitbench.report.positions import similarity
from splitbench.report.statistics.measured import Rows as Found
from splitbench.runner import runfolder
from tests.report._rows import Rows

TRUTH = torch.rand(5, 1, 8, 8, generator=generator(0))
NAMES = {"defense": {"none": "SL", "gaussian": "GN", "seal": "Ours"}}
PAPER = Paper("own/figure", rows=("defense",), names=NAMES, where={"attack": "fora"})
TRAINED = replace(PAPER, where={})


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Three methods, of which one was trained with two seeds, their histories and their embeddings."""
    made = Rows(tmp_path)
    for i, (defense, seed) in enumerate([("seal", 0), ("none", 1), ("none", 0), ("gaussian", 0)]):
        run = made.train(0.9, defense=defense, seed=seed)
        key = made.attack("fora", 0.5, defense=defense, seed=seed)
        made.attack("unsplit", 0.4, defense=defense, seed=seed)
        outcome = made.store.get(key)
        assert outcome is not None
        runfolder.save_recovered(made.store, outcome.run, key, {"inputs": (1 - 0.1 * i) * TRUTH}, TRUTH)
        folder = made.store.run_folder(run)
        (folder / "history.json").write_text(json.dumps({"loss": [2.0 - 0.1 * i, 1.0 - 0.1 * i]}))
        save_file({"client0/0/pos_embed": table(i), "server/0/blocks.0.weight": np.ones((2, 2))},
                  folder / "weights.safetensors")  # fmt: skip
    made.plan("own/figure")
    return made


def table(seed: int) -> np.ndarray:
    """(1, 1 + 9, 4): a class token and a grid of three by three."""
    return np.random.default_rng(seed).normal(size=(1, 10, 4)).astype(np.float32)


def test_lines_are_the_papers_in_its_order_and_words_and_of_the_first_seed(rows: Rows) -> None:
    found, problems = drawn_rows(PAPER, store=rows.store.path)
    assert [(row.label, row.outcome.attack_name, row.outcome.seed) for row in found] == [
        ("SL", "fora", 0), ("GN", "fora", 0), ("Ours", "fora", 0)]  # fmt: skip
    assert not problems
    assert {row.outcome.kind for row in drawn_rows(TRAINED, store=rows.store.path)[0]} == {"train"}


def test_a_gallery_has_a_line_of_images_for_each_method(rows: Rows) -> None:
    [panel], _ = gallery(PAPER, store=rows.store.path, images=3)
    assert [row.attack for row in panel.rows] == ["SL", "GN", "Ours"]
    assert all(len(row.images) == 3 for row in panel.rows)
    # Of seed 0 the third that was stored: 0.8 of the truth.
    np.testing.assert_allclose(panel.rows[0].images, 0.8 * panel.originals.astype(float), atol=1.5)


def test_a_line_that_failed_is_told(rows: Rows) -> None:
    rows.attack("fora", 0.1, defense="seal", seed=0, status="failed", reason="the loss became nan")
    found, problems = drawn_rows(PAPER, store=rows.store.path)
    assert [row.label for row in found] == ["SL", "GN"]
    assert problems == ["Ours: failed: the loss became nan"]


def test_losses_are_those_of_the_histories(rows: Rows) -> None:
    [panel], problems = losses(TRAINED, store=rows.store.path)
    assert panel.lines == (("SL", (1.8, 0.8)), ("GN", (1.7, 0.7)), ("Ours", (2.0, 1.0)))
    assert not problems
    for path in rows.store.path.glob("trained/*gaussian*/history.json"):
        path.write_text("{")
    [panel], problems = losses(TRAINED, store=rows.store.path)
    assert [label for label, _ in panel.lines] == ["SL", "Ours"]
    assert any("cannot be read" in problem for problem in problems)


def test_similarity_is_the_cosine_of_each_pair_in_loops() -> None:
    given = table(3)[0]
    found = similarity(given)
    assert found is not None
    assert found.grid == (3, 3)
    places = given[1:].astype(np.float64)  # the class token has no place
    for i in range(9):
        for j in range(9):
            cosine = places[i] @ places[j] / (np.linalg.norm(places[i]) * np.linalg.norm(places[j]))
            assert found.cosines[i, j] == pytest.approx(cosine)
    apart = [abs(found.cosines[i, j]) for i in range(9) for j in range(9) if i != j]
    assert found.mean == pytest.approx(np.mean(apart))
    beside = [found.cosines[i, j] for i in range(9) for j in range(9)
              if (j == i + 1 and j % 3) or j == i + 3]  # fmt: skip
    assert len(beside) == 12
    assert found.neighbours == pytest.approx(np.mean(beside))
    maps = mosaic(found)
    assert maps.shape == (11, 11)
    assert maps[4 + 1, 4 + 1] == pytest.approx(1)  # the middle of the middle map is itself
    assert np.isnan(maps[3]).all()


@pytest.mark.parametrize("given", [np.zeros((9, 4)), np.full((9, 4), np.nan), np.ones((1, 4))])
def test_embeddings_that_were_never_learned_have_no_similarity(given: np.ndarray) -> None:
    assert similarity(given) is None


def test_smooth_embeddings_are_alike_and_random_ones_are_not() -> None:
    places = np.stack(np.meshgrid(np.arange(8), np.arange(8)), -1).reshape(64, 2) / 8
    smooth = np.exp(-((places[:, None] - places[None]) ** 2).sum(-1) * 4)
    random = np.random.default_rng(0).normal(size=(64, 192))
    one, two = similarity(smooth), similarity(random)
    assert one is not None
    assert two is not None
    assert one.neighbours > 0.9
    assert abs(two.neighbours) < 0.1
    assert two.mean < 0.1 < one.mean


def test_what_a_defense_learns_goes_before_what_the_network_has(rows: Rows) -> None:
    folder = next(rows.store.path.glob("trained/*seal*"))
    own = np.eye(9, dtype=np.float32)[None]
    save_file({"client0/0/pos_embed": table(0), "server/0/0.positions": own}, folder / "weights.safetensors")
    panels, problems = positions(TRAINED, store=rows.store.path)
    assert [panel.title for panel in panels] == ["cifar10, SL", "cifar10, GN", "cifar10, Ours"]
    assert panels[2].similarity.mean == 0
    assert not problems


def test_a_claim_may_ask_for_the_similarity(rows: Rows) -> None:
    folder = next(rows.store.path.glob("trained/*seal*"))
    save_file({"server/0/0.positions": np.eye(9, dtype=np.float32)[None]}, folder / "weights.safetensors")
    compare = {"left": {"defense": "seal", "metric": embeddings.METRIC}, "is": "below", "right": {"defense": "none"}}
    claims = read([{"id": "c", "says": "s", "section": "1", "compare": compare}])
    outcomes = embeddings.counted(rows.store, rows.store.outcomes()[0])
    [scored] = judge(replace(TRAINED, claims=claims), Found(outcomes, outcomes))
    assert scored.verdict == "holds"
    assert scored.judged[0].difference is not None
    assert scored.judged[0].difference.left == 0


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_same_rows_give_the_same_bytes(rows: Rows, tmp_path: Path, kind: str) -> None:
    several: list[tuple[str, Any, Any]] = [
        ("l", losses, draw_losses), ("p", positions, draw_positions), ("g", gallery, draw)]  # fmt: skip
    for name, make, paint in several:
        panels, _ = make(PAPER if name == "g" else TRAINED, store=rows.store.path)
        files = [tmp_path / f"{name}{i}.{kind}" for i in range(2)]
        for file in files:
            paint(file, panels, "A title")
        assert files[0].read_bytes() == files[1].read_bytes()
        if kind == "png":
            with Image.open(files[0]) as image:
                inked = (np.asarray(image.convert("L")) < 200).mean()
            assert 0.005 < inked < 0.7, name


def test_nothing_to_show_says_how_to_make_it(rows: Rows) -> None:
    empty = replace(PAPER, names={"defense": {"nopeek": "NoPeek"}})
    for make in (losses, positions, gallery):
        with pytest.raises(SplitbenchError, match="splitbench run own/figure"):
            make(empty, store=rows.store.path)
    for path in rows.store.path.glob("trained/*/weights.safetensors"):
        path.write_bytes(b"no weights")
    with pytest.raises(SplitbenchError, match=r"no position embeddings(.|\n)*cannot be read"):
        positions(TRAINED, store=rows.store.path)
    for path in rows.store.path.glob("trained/*/history.json"):
        path.unlink()
    with pytest.raises(SplitbenchError, match="no history of any training"):
        losses(TRAINED, store=rows.store.path)


def test_the_figures_are_drawn_without_torch() -> None:
    modules = ("gallery_figure", "loss_figure", "position_figure")
    code = "".join(f"import splitbench.report.{m}\n" for m in modules) + "import sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
