"""The page from a store: the same bytes, nothing foreign, nothing unescaped, and every damage by its name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from splitbench.core.component import Part
from splitbench.plan.cells import Cell
from splitbench.report.page.page import report
from splitbench.store.store import Store
from tests.conftest import Command
from tests.report.page._store import GAUSSIAN, attack, row, small, spec, train

RESULTS = Path(__file__).parents[3] / "results"
EMPTY = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta"}


class Parsed(HTMLParser):
    """Elements with their attributes, and text; what is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def html(store: Path) -> str:
    return report(store).html


def test_the_same_store_gives_the_same_bytes_wherever_it_lies(store: Path, html: str, tmp_path: Path) -> None:
    assert report(store).html == html
    shutil.copytree(store, tmp_path / "elsewhere")
    assert report(tmp_path / "elsewhere").html == html
    assert str(store) not in html


def test_the_page_is_well_formed_and_can_be_used_without_seeing_it(html: str) -> None:
    parsed = Parsed(html)
    assert parsed.open == []
    ids = [a["id"] for _, a in parsed.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert parsed.all("html") == [{"lang": "en"}]
    assert len(parsed.all("h1")) == 1
    images, drawings = parsed.all("img"), parsed.all("svg")
    assert images
    assert drawings
    assert all(a["alt"].strip() for a in images)
    for a in drawings:
        assert a["role"] == "img"
        assert set(a["aria-labelledby"].split()) <= set(ids)
    inside = {a["href"].removeprefix("#") for a in parsed.all("a")}
    assert inside <= set(ids)
    assert len(parsed.all("label")) == len(parsed.all("select")) == 3
    assert all(a.get("scope") for a in parsed.all("th"))


def test_nothing_comes_from_elsewhere_and_no_script_or_style_but_ours_can_run(html: str) -> None:
    parsed = Parsed(html)
    [policy] = [a["content"] for a in parsed.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    for tag in ("script", "style"):
        [body] = re.findall(rf"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "'unsafe" not in policy
    for tag, attributes in parsed.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "http://" not in html
    assert "https://" not in html


EVIL = "<script>alert(1)</script>"
WORSE = "\"'><img src=x onerror=alert(1)>"


def test_names_and_reasons_are_shown_and_never_run(tmp_path: Path) -> None:
    bad = Part("defenses", EVIL, {"sigma": 1.0})
    for defenses in ((), (bad,)):
        run = replace(spec(*defenses), cut=WORSE, model=Part("models", WORSE, {"x": EVIL}))
        train(tmp_path, run, defense=EVIL if defenses else "none", dataset=WORSE, model=EVIL)
        attack(tmp_path, run, "inversion", 0.9, defense=EVIL if defenses else "none", attack=WORSE, dataset=WORSE)
        attack(tmp_path, run, "fora", 0.9, status="skipped", reason=EVIL + WORSE, attack=EVIL)
    Store(tmp_path).put_plan("mine/" + "x&<b>", "desk", {"title": EVIL, "cells": [], "table": {}})
    made = report(tmp_path).html
    parsed = Parsed(made)
    assert len(parsed.all("script")) == 1
    assert not [a for a in parsed.all("img") if a.get("src") == "x"]
    assert not [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")]
    shown = "".join(parsed.texts)
    assert EVIL in shown
    assert WORSE in shown


def test_damage_is_named_on_the_page_and_in_the_terminal_and_the_rest_is_shown(
    splitbench: Command, tmp_path: Path
) -> None:
    store = small(tmp_path / "runs")
    victims = [spec(), spec(GAUSSIAN[0.5]), spec(GAUSSIAN[2.0])]
    truncated = attack(store, victims[0], "fora", 0.9)
    older = attack(store, victims[0], "sdar", 0.9)
    path = store / "outcomes" / f"{truncated}.parquet"
    path.write_bytes(path.read_bytes()[:200])
    path = store / "outcomes" / f"{older}.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["twin", "bars"]), path)
    shutil.rmtree(store / "trained" / victims[2].key)
    (store / "trained" / victims[1].key / "history.json").write_text('{"loss": [1')
    key = attack(store, victims[1], "inversion", 0.92, "exact")
    picture = store / "trained" / victims[1].key / "attacks" / f"{key}.png"
    picture.write_bytes(b"no picture")
    (store / "plans").mkdir()
    (store / "plans" / "mine@desk.json").write_text("{")
    said = splitbench("report", "--output", tmp_path / "report.html")
    assert said.code == 0
    made = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in (truncated, older, victims[2].key, f"{victims[1].key}/history.json", picture.name, "plan of mine"):
        assert name in said.err, name
        assert name in made, name
    assert "gaussian(sigma=2)" in made
    assert 'class="card plot-card"' in made


def test_a_store_of_rows_alone_is_told_so_once(tmp_path: Path) -> None:
    train(tmp_path, spec(), folder=False)
    train(tmp_path, spec(GAUSSIAN[1.0]), folder=False)
    made = report(tmp_path)
    assert made.problems == ("no run has its folder here, only rows: no pictures and no training curves",)


def test_failed_trainings_and_missing_scores_are_no_trouble(tmp_path: Path) -> None:
    train(tmp_path, spec())
    Store(tmp_path).put(row(Cell(spec(GAUSSIAN[1.0])), status="failed", reason="the loss is NaN"))
    attack(tmp_path, spec(), "inversion", 0.9, scores=())
    attack(tmp_path, spec(), "fora", float("nan"))
    made = report(tmp_path).html
    assert "the loss is NaN" in made
    assert ">nan<" not in made.lower()


def test_components_that_are_gone_or_broken_by_now_are_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("class Broken(:")
    store = tmp_path / "runs"
    for name in ("own.py:Broken", "gone.package:Thing", "nowhere.py:Thing", "unheard_of"):
        run = replace(spec(Part("defenses", name, {"sigma": 1.0})), model=Part("models", f"{name}Net", {}))
        train(store, run, defense=name)
        attack(store, run, name, 0.9)
    made = report(store).html
    assert made.count("splitbench train --dataset") == 4
    assert made.count("splitbench attack ") == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["nothing to report", "splitbench train"]),
        (["--output", "nowhere/report.html"], ["no folder nowhere"]),
        (["--output", "."], ["is a folder"]),
        (["--gallery", "-1"], ["--gallery"]),
    ],
)
def test_a_wrong_request_is_refused(
    splitbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = splitbench("report", *options)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert all(word in said.err for word in words), said.err
    assert not list(tmp_path.rglob("*.html"))


def test_the_command_says_what_it_made(splitbench: Command, tmp_path: Path) -> None:
    small(tmp_path / "runs")
    said = splitbench("report", "--output", tmp_path / "r.html", "--json")
    told = json.loads(said.out)
    assert told["rows"] == 13
    assert told["runs"] == 3
    assert told["galleries"] == 2
    assert told["problems"] == []
    assert told["bytes"] == (tmp_path / "r.html").stat().st_size


def test_the_gallery_can_be_short_and_says_what_it_leaves_out(store: Path) -> None:
    made = report(store, gallery=1)
    assert made.pictures == 1
    assert "1 more pairs of attack and defense" in made.html


PROBE = """
import sys
sys.argv = ["splitbench", "report", "--store", {store!r}, "--output", {output!r}]
from splitbench.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("HEAVY", [m for m in ("torch", "timm", "pandas", "transformers", "matplotlib") if m in sys.modules])
"""


def test_a_report_never_loads_torch(store: Path, tmp_path: Path) -> None:
    code = PROBE.format(store=str(store), output=str(tmp_path / "r.html"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout


CSS = Path(report.__code__.co_filename).parent / "report.css"
THEMES = re.findall(r"\{([^{}]*--paper:[^{}]*)\}", CSS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("theme", THEMES)
def test_text_stands_out_from_what_it_stands_on(theme: str) -> None:
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", theme))

    def light(colour: str) -> float:
        digits = colour.removeprefix("#")
        digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for text in ("ink", "soft", "accent"):
        for ground in ("paper", "card", "wash"):
            high, low = sorted((light(colours[text]), light(colours[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def test_there_are_themes() -> None:
    assert len(THEMES) == 4  # light, dark by the system, dark by choice, paper
