"""Components from a user's file have digests for versions: every command takes their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from splitbench.report.statistics.versions import without_older
from splitbench.store.outcome import Outcome
from tests.conftest import Command
from tests.report._rows import Rows
from tests.runner.test_store import outcome

DIGEST = "3f9a0c11d2e4"


def row(key: str, version: Any, created: float, defense: Any = 1) -> Outcome:
    run = {"seed": 0, "defenses": [{"name": "d", "version": defense}]}
    return outcome(key, created=created, cell={"run": run, "attack": {"name": "a", "version": version}})


@pytest.mark.parametrize(
    ("older", "newer"),
    [(1, 2), (9, 10), ("1+ffff", "2+0000"), (2, "10+abc"), ("1", 2)],
)
def test_numbers_are_compared_as_numbers_whatever_came_later(older: Any, newer: Any) -> None:
    rows = [row("new", newer, 1.0), row("old", older, 2.0)]
    kept, said = without_older(rows)
    assert [o.key for o in kept] == ["new"]
    assert "leaves out 1 row of an older version" in said


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (DIGEST, "0" * 12),
        ("wang2004", "rouse2008"),
        (1, DIGEST),
        (DIGEST, 7),
        ("2+abc", "2+abb"),
        ("999999999999", "1" * 12),
    ],
)
def test_what_has_no_order_goes_by_when_it_was_made(older: Any, newer: Any) -> None:
    for rows in ([row("new", newer, 2.0), row("old", older, 1.0)], [row("old", older, 1.0), row("new", newer, 2.0)]):
        assert [o.key for o in without_older(rows)[0]] == ["new"]


def test_versions_of_defenses_count_too_and_one_version_leaves_nothing_out() -> None:
    rows = [row("old", 1, 5.0, DIGEST), row("new", 1, 6.0, "a" * 12)]
    assert [o.key for o in without_older(rows)[0]] == ["new"]
    same = [row("a", DIGEST, 1.0), row("b", DIGEST, 2.0)]
    assert without_older(same) == (same, "")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An attack, a defense, a data set and a metric of one's own, beside those of the registry."""
    rows = Rows(tmp_path / "store")
    for at in ({}, {"defense": "mine.py:Veil", "settings": {"k": 3}}, {"defense": "seal", "settings": {"omega": 0.5}}):
        rows.train(0.8, **at)
        rows.attack("mean_image", 0.1, **at)
        rows.attack("mine.py:Peek", 0.9 if not at else 0.2, bar=0.5, **at)
        rows.attack("fora", 0.8 if not at else 0.3, **at)
    for found in rows.store.outcomes()[0]:
        cell = _digested(found.cell)
        scores = tuple(replace(s, version=DIGEST) for s in found.scores)
        rows.store.put(replace(found, cell=cell, scores=scores))
    rows.plan("own")
    return rows.store.path


def _digested(document: Any) -> Any:
    if isinstance(document, dict):
        own = str(document.get("name", "")).startswith("mine.py")
        return {k: DIGEST if own and k == "version" else _digested(v) for k, v in document.items()}
    return [_digested(one) for one in document] if isinstance(document, list) else document


@pytest.mark.parametrize(
    "command",
    [
        ("table",), ("table", "own"), ("table", "own", "--rows", "attack", "--cols", "defense"),
        ("table", "own", "--rows", "defense.mine.py:Veil.k"), ("table", "own", "--where", "defense=mine.py:Veil"),
        ("report", "--output", "page.html"), ("checklist",),
        ("figure", "own", "--x", "defense.mine.py:Veil.k", "--output", "curve.png"), ("claims", "seal"),
    ],
)  # fmt: skip
def test_every_command_takes_them(
    splitbench: Command, store: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    said = splitbench(*command, "--store", store)
    assert said.code == 0, said.err


def test_diff_takes_them(splitbench: Command, store: Path) -> None:
    assert splitbench("diff", store, store).code == 0
