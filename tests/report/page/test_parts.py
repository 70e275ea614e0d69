"""The parts a page is made of, each against something slower and surely right."""

from __future__ import annotations

import base64
import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from splitbench.report.page import ablation, ladders, pareto, plot_axis
from splitbench.report.page.gallery import ACROSS, gallery
from splitbench.report.page.gather import distinct, gather
from splitbench.report.page.plot import Line, Mark, Plot, spread, tag
from splitbench.report.page.verdicts import standings
from splitbench.store.store import Store
from tests.conftest import TINY, Command
from tests.report.page._store import GAUSSIAN, IMAGES, attack, originals, small, spec, train

value = st.floats(0, 1).map(lambda v: round(v, 2))  # so that some are the same
points = st.lists(st.tuples(value, value), min_size=1, max_size=12)


@given(points, st.booleans())
def test_the_front_is_what_no_other_point_beats(found: list[tuple[float, float]], more: bool) -> None:
    def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
        x = a[0] >= b[0] if more else a[0] <= b[0]
        return x and a[1] <= b[1] and a != b

    slow = {i for i, p in enumerate(found) if not any(beats(q, p) for q in found)}
    assert set(pareto.front(found, more)) == slow


def test_what_no_working_attack_has_faced_is_not_on_the_front(tmp_path: Path) -> None:
    small(tmp_path)
    train(tmp_path, spec(GAUSSIAN[1.0]), 0.9)
    attack(tmp_path, spec(GAUSSIAN[1.0]), "fora", 0.05)  # never mounted where nothing defends
    [plot] = pareto.plots(standings(gather(Store(tmp_path))), 9).plots
    assert {row[0]: row[4] for row in plot.rows} == {
        "undefended": "yes", "gaussian(sigma=0.5)": "yes", "gaussian(sigma=1)": "", "gaussian(sigma=2)": "yes",
    }  # fmt: skip
    assert [m.kind for m in plot.marks] == ["base", "plain", "doubt", "plain"]


@given(points, st.booleans())
def test_the_staircase_never_passes_below_a_point_of_the_front(found: list[tuple[float, float]], more: bool) -> None:
    on = [found[i] for i in pareto.front(found, more)]
    steps = pareto._steps(on, more)
    assert set(on) <= set(steps)
    for x, y in steps:  # each corner is beaten by, or is, a point of the front
        assert any((p[0] >= x if more else p[0] <= x) and p[1] <= y for p in on)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_an_axis_holds_its_values_and_its_ticks(values: list[float]) -> None:
    made = plot_axis.linear("x", values)
    assert all(0 <= made.share(v) <= 1 for v in values)
    assert all(-1e-6 <= made.share(t) <= 1 + 1e-6 for t, _ in made.ticks)
    assert 2 <= len(made.ticks) <= 12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_no_tick_lies_beyond_what_can_be(values: list[float]) -> None:
    made = plot_axis.linear("accuracy", values, 0.12, (0.0, 1.0), 0.1)
    assert all(-1e-9 <= t <= 1 + 1e-9 for t, _ in made.ticks)
    assert all(0 <= made.share(v) <= 1 for v in values)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9))
def test_settings_stand_in_their_order(values: list[float]) -> None:
    made = plot_axis.through("sigma", values)
    shares = [made.share(v) for v in sorted(set(values))]
    assert all(a < b for a, b in pairwise(shares)) or made.high - made.low < 1e-9
    assert all(-1e-9 <= s <= 1 + 1e-9 for s in shares)


@pytest.mark.parametrize(
    ("number", "said"),
    [(0.25, "0.25"), (12, "12"), (2000, "2000"), (1_204_416_000, "1.2 G"), (301e6, "301 M"), (15000, "15 k"), (0, "0")],
)
def test_numbers_are_short(number: float, said: str) -> None:
    assert plot_axis.short(number) == said


@given(st.lists(st.floats(0, 100), max_size=8))
def test_labels_are_moved_apart_and_keep_their_order(wanted: list[float]) -> None:
    places = spread(wanted, 13, 0, 100)
    assert all(-1e-9 <= p <= 100 + 1e-9 for p in places)
    ordered = [places[i] for i in sorted(range(len(wanted)), key=lambda i: (wanted[i], i))]
    gap = min(13, 100 / max(1, len(wanted) - 1))
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(ordered))


@given(st.text())
def test_a_plot_escapes_whatever_it_is_told(text: str) -> None:
    assume(text.strip())
    marks = (Mark(0.5, 0.5, text, text, data={"defense": text}),)
    made = Plot("k", text, text, text, text, plot_axis.linear(text, [0, 1]), plot_axis.linear(text, [0, 1]), marks,
                (Line(marks * 2, text),)).svg()  # fmt: skip
    assert made.count("<svg") == 1
    assert str(tag("b", {"a": text}, text)).count("<") == 2


names = st.sampled_from(["a", "b"])
documents = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), max_size=3)


@settings(max_examples=60)
@given(st.dictionaries(st.integers(0, 9), st.tuples(names, documents), max_size=6))
def test_no_two_things_have_one_name(named: dict[int, tuple[str, dict[str, int]]]) -> None:
    told = distinct(named)
    assert len(set(told.values())) == len(named)
    assert all(told[key].startswith(name) for key, (name, _) in named.items())


def decoded(uri: str) -> np.ndarray:
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
        return np.asarray(image.convert("L"))


def test_a_gallery_shows_the_very_images_worst_leak_first(tmp_path: Path) -> None:
    rows = gather(Store(small(tmp_path)))
    shown = gallery(rows, standings(rows))
    assert [e.outcome.ranked["ssim"] for e in shown.entries] == pytest.approx([0.92, 0.22])
    assert [e.faced.name for e in shown.entries] == ["inversion · exact"] * 2
    for entry in shown.entries:
        assert [s.name for s in entry.strips] == ["original", "recovered", "undefended"]
        truth = (originals()[:, 0] * 255).round().astype(np.uint8)[::-1][:ACROSS]  # the last one leaks most
        side = truth.shape[-1]
        sheet = decoded(entry.strips[0].picture)
        for i, image in enumerate(truth):
            np.testing.assert_array_equal(sheet[:, i * (side + 1) : i * (side + 1) + side], image)
        assert entry.strips[1].scores == tuple(sorted(entry.strips[1].scores, reverse=True))
    assert rows.problems == []


def test_where_there_are_too_many_the_worst_of_each_defense_is_shown(tmp_path: Path) -> None:
    small(tmp_path)
    for name, leak in (("fora", 0.85), ("sdar", 0.8)):
        attack(tmp_path, spec(GAUSSIAN[0.5]), name, leak)
    rows = gather(Store(tmp_path))
    shown = gallery(rows, standings(rows), 3)
    names = [(e.standing.defense, e.outcome.attack) for e in shown.entries]
    assert names == [("gaussian(sigma=0.5)", "inversion"), ("gaussian(sigma=0.5)", "fora"),
                     ("gaussian(sigma=2)", "inversion")]  # fmt: skip
    assert shown.left_out == 1


def test_a_gallery_reads_what_the_runner_really_stores(splitbench: Command, tmp_path: Path) -> None:
    import torch

    from splitbench.core.data import as_input
    from splitbench.runner.prepare import prepare
    from splitbench.runner.runfolder import read_spec

    assert splitbench("train", *TINY).code == 0
    assert splitbench("attack", "inversion", "--steps", "2").code == 0
    store = Store(tmp_path / "runs")
    rows = gather(store)
    [entry] = [e for e in gallery(rows, standings(rows)).entries if e.outcome.attack.startswith("inversion")]
    truth = as_input(prepare(read_spec(store.run_folder(entry.outcome.run))).evaluation.x)
    found = entry.outcome.score("ssim")
    assert found is not None
    order = torch.tensor(found.values).argsort(descending=True)
    pixels = (truth[order, 0] * 255).round().to(torch.uint8).numpy()
    sheet = decoded(entry.strips[0].picture)
    side = pixels.shape[-1]
    assert sheet.shape == (side, len(pixels) * (side + 1) - 1)
    for i, image in enumerate(pixels):
        np.testing.assert_array_equal(sheet[:, i * (side + 1) : i * (side + 1) + side], image)


def test_curves_join_rows_that_differ_in_one_number(tmp_path: Path) -> None:
    for seed in (0, 1):
        for sigma, leak in ((None, 0.95), (0.5, 0.9), (1.0, 0.6), (2.0, 0.3)):
            run = spec(*([GAUSSIAN[sigma]] if sigma else []), seed=seed)
            train(tmp_path, run, 0.8 - (sigma or 0) / 10, folder=False)
            attack(tmp_path, run, "inversion", leak + seed / 100)
    found = {c.utility: c for c in ablation.curves(gather(Store(tmp_path)))}
    assert found[False].path == "run.defense.gaussian.settings.sigma"
    assert [(x, round(y, 3)) for x, y, _ in found[False].values] == [(0.5, 0.905), (1.0, 0.605), (2.0, 0.305)]
    assert all(half is not None for _, _, half in found[False].values)
    assert found[False].base == pytest.approx(0.955)
    assert [round(y, 3) for _, y, _ in found[True].values] == [0.75, 0.7, 0.6]
    assert found[True].base == pytest.approx(0.8)


def test_ladders_are_drawn_where_there_are_rungs(tmp_path: Path) -> None:
    small(tmp_path)
    attack(tmp_path, spec(GAUSSIAN[2.0]), "inversion", 0.05, "exact")  # knows more, recovers less
    rows = gather(Store(tmp_path))
    drawn = ladders.plots(rows, standings(rows), 9).plots
    assert [p.rows for p in drawn] == [
        (("inversion", "0.900", "–", "0.920"),),
        (("inversion", "0.200", "–", "0.050"),),
    ]
    assert drawn[0].note == ""
    assert "not monotone in knowledge" in drawn[1].note


def test_there_are_images_enough_for_a_strip() -> None:
    assert IMAGES > ACROSS
