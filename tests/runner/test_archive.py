"""What was exported is verified by somebody else: whatever was changed is found, and nothing leaves its folder."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from splitbench.core.errors import SplitbenchError
from splitbench.plan.cells import digest
from splitbench.report.tables.pages import markdown_of
from splitbench.store.archive import export_run, export_table
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store
from splitbench.store.verify import verify
from tests.conftest import Command
from tests.runner.test_store import outcome

WEIGHTS = b"weights" * 1000
RUN = {"data": {"name": "mnist"}, "defenses": [], "seed": 0}
ATTACK = {"run": RUN, "attack": {"name": "black", "settings": {}, "version": 1}, "threat": {"knowledge": "none"}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    run, attack = digest(RUN), digest(ATTACK)
    accuracy = (Score("accuracy", "1", 0.9, 100),)
    weights = hashlib.sha256(WEIGHTS).hexdigest()
    made.put(outcome(run, run=run, kind="train", attack="", cell={"run": RUN}, scores=accuracy, samples=(),
                     weights=weights))  # fmt: skip
    made.put(outcome(attack, run=run, cell=ATTACK, twin=attack, weights=weights))

    def fill(folder: Path) -> None:
        (folder / "recipe.yaml").write_text(json.dumps(RUN))
        (folder / "weights.safetensors").write_bytes(WEIGHTS)
        (folder / "provenance.json").write_text("{}")

    made.put_run(run, fill)
    made.put_plan("mine", "smoke", {"title": "T", "table": {}, "cells": [run, attack]})
    return made


@pytest.fixture
def packed(store: Store, tmp_path: Path) -> Path:
    rows, _ = store.outcomes()
    return export_run(rows[0].run, rows, store, tmp_path / "run.zip").path


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], resign: bool = False) -> Path:
    """The zip with other contents; `resign` makes the manifest agree with them."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    if resign:
        manifest = json.loads(files["manifest.json"])
        others = {n: c for n, c in files.items() if n != "manifest.json"}
        manifest["files"] = {n: {"sha256": hashlib.sha256(c).hexdigest(), "size": len(c)} for n, c in others.items()}
        files["manifest.json"] = json.dumps(manifest).encode()
    target = path.with_name("other.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target


def one(files: dict[str, bytes], ending: str) -> str:
    return next(name for name in sorted(files) if name.endswith(ending))


def test_what_was_exported_is_whole(packed: Path, store: Store) -> None:
    found = verify(packed)
    assert found.problems == []
    assert (found.kind, found.rows, found.runs) == ("run", 2, 1)
    with zipfile.ZipFile(packed) as archive:
        assert {name.split("/")[-1] for name in archive.namelist()} >= {
            "manifest.json", "environment.json", "recipe.yaml", "weights.safetensors", "provenance.json"}  # fmt: skip


def test_the_same_contents_are_the_same_bytes(packed: Path, store: Store, tmp_path: Path) -> None:
    rows, _ = store.outcomes()
    again = export_run(rows[0].run, rows, store, tmp_path / "again.zip")
    assert again.path.read_bytes() == packed.read_bytes()
    assert verify(packed, again.digest[:12]).problems == []
    [problem] = verify(packed, "0" * 64).problems
    assert "the manifest's digest is" in problem


def test_unpacked_it_is_a_store(packed: Path, store: Store, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert Store(tmp_path / "unpacked").outcomes() == store.outcomes()
    assert Store(tmp_path / "unpacked").runs() == store.runs()


@pytest.mark.parametrize("ending", [".parquet", "weights.safetensors", "recipe.yaml", "environment.json"])
def test_a_changed_file_is_found(packed: Path, ending: str) -> None:
    def change(files: dict[str, bytes]) -> None:
        name = one(files, ending)
        files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])

    [problem] = verify(rewritten(packed, change)).problems
    assert "changed, its digest is not the manifest's" in problem


def test_a_lost_and_an_added_file_are_found(packed: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        del files[one(files, "weights.safetensors")]
        files["outcomes/more.parquet"] = b"more"

    lost, added = verify(rewritten(packed, change)).problems
    assert "weights.safetensors: lost" in lost
    assert added == "outcomes/more.parquet: added, the manifest does not list it"


def changed_row(files: dict[str, bytes], change: Callable[[Outcome], Outcome]) -> None:
    from dataclasses import replace

    name = f"outcomes/{digest(ATTACK)}.parquet"
    row = change(replace(Outcome.read(io.BytesIO(files[name]))))
    buffer = io.BytesIO()
    row.write(buffer)  # type: ignore[arg-type]
    files[name] = buffer.getvalue()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cell": {**ATTACK, "threat": {"knowledge": "exact"}}}, "its settings are not those of its key"),
        ({"key": "b" * 16}, "holds the outcome bbbb"),
        ({"run": "b" * 16}, "its settings are not those of its key"),
        ({"scores": (Score("ssim", "wang2004", 0.1, 2, (0.0, 0.5), "clamp"),)}, "ssim is 0.1, its images say 0.25"),
    ],
)
def test_a_row_must_fit_itself_even_if_the_manifest_was_made_to_agree(
    packed: Path, change: dict[str, Any], said: str
) -> None:
    from dataclasses import replace

    def edit(files: dict[str, bytes]) -> None:
        changed_row(files, lambda row: replace(row, **change))

    problems = verify(rewritten(packed, edit, resign=True)).problems
    assert any(said in problem for problem in problems), problems


def test_rows_must_speak_of_the_weights_beside_them(packed: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        files[one(files, "weights.safetensors")] = b"others"

    problems = verify(rewritten(packed, edit, resign=True)).problems
    assert len(problems) == 2, "the training's row and the attack's"
    assert all("speaks of other weights than" in problem for problem in problems)

    def without(files: dict[str, bytes]) -> None:
        del files[one(files, "weights.safetensors")]

    assert verify(rewritten(packed, without, resign=True)).problems == []


def test_a_recipe_must_be_that_of_its_run(packed: Path) -> None:
    def edit(files: dict[str, bytes]) -> None:
        files[one(files, "recipe.yaml")] = json.dumps({**RUN, "seed": 7}).encode()

    [problem] = verify(rewritten(packed, edit, resign=True)).problems
    assert "its settings are not those of run" in problem


@pytest.mark.parametrize(
    "name", ["../evil", "outcomes/../../evil", "/etc/evil", "C:\\evil", "outcomes\\..\\evil", "a.py"]
)
def test_a_name_that_leads_outside_is_refused(packed: Path, name: str) -> None:
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, b"evil")
    with pytest.raises(SplitbenchError, match=r"is refused: .*(outside of its folder|does not belong there)"):
        verify(packed)


def test_links_and_names_that_are_there_twice_are_refused(packed: Path, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("trained/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(link, b"/etc/passwd")
    with pytest.raises(SplitbenchError, match="'trained/link' is a link"):
        verify(packed)
    twice = tmp_path / "twice.zip"
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("manifest.json", b"{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("manifest.json", b"{}")
    with pytest.raises(SplitbenchError, match="is in it twice"):
        verify(twice)


def test_a_zip_that_unpacks_to_more_than_it_says_is_stopped(packed: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        files[one(files, "recipe.yaml")] = b"0" * (8 << 20)

    [problem] = verify(rewritten(packed, change)).problems
    assert "recipe.yaml: changed" in problem


def test_broken_bytes_inside_are_told(packed: Path) -> None:
    content = bytearray(packed.read_bytes())
    middle = content.find(b"weights" * 20)
    content[middle + 3] ^= 255
    packed.write_bytes(bytes(content))
    [problem] = verify(packed).problems
    assert "weights.safetensors" in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"nonsense", "is no zip"), (b"", "is no zip"), (None, "is no zip")],
)
def test_what_is_no_zip_is_told(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SplitbenchError, match=said):
        verify(path)


@pytest.mark.parametrize(
    "manifest", [None, b"{", b"[]", b'{"files": {"a": 1}, "format": 1}', b'{"files": {}, "format": 9}']
)
def test_a_manifest_must_be_one(tmp_path: Path, manifest: bytes | None) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        if manifest is not None:
            archive.writestr("manifest.json", manifest)
    with pytest.raises(SplitbenchError, match=r"no manifest|has format 9"):
        verify(tmp_path / "x.zip")


def test_a_table_is_exported_with_its_plan_and_made_again(store: Store, tmp_path: Path) -> None:
    pages = {"table.md": markdown_of(store.path, "mine", "smoke")}
    made = export_table("mine", "smoke", store.outcomes()[0], store, tmp_path / "t.zip", pages)
    assert verify(made.path, table=markdown_of).problems == []

    def change(files: dict[str, bytes]) -> None:
        files["table.md"] = files["table.md"].replace(b"0.250", b"0.150")

    other = rewritten(made.path, change, resign=True)
    assert verify(other, table=markdown_of).problems == ["table.md: is not the table that its rows make here"]
    store.outcome_file(digest(ATTACK)).unlink()
    less = export_table("mine", "smoke", store.outcomes()[0], store, tmp_path / "less.zip", {})
    assert verify(less.path).missing == ["1 of 2 planned rows"]


def test_the_commands(splitbench: Command, store: Store, tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    said = splitbench("export", "latest", "--store", store.path, "--to", target)
    assert said.code == 0
    assert "next: splitbench verify" in said.out
    assert splitbench("export", "latest", "--store", store.path, "--to", target).code == 2, "never overwritten"
    assert splitbench("verify", target).code == 0
    assert json.loads(splitbench("verify", target, "--json").out)["whole"] is True
    wrong = splitbench("verify", target, "--expect", "abc")
    assert wrong.code == 1
    assert "do not trust it" in wrong.out
    assert splitbench("export", "nowhere", "--store", store.path).code == 2
    assert splitbench("verify", tmp_path / "none.zip").code == 2
    table = splitbench("export", "mine", "--scale", "smoke", "--store", store.path, "--to", tmp_path / "t.zip")
    assert table.code == 0
    assert splitbench("verify", tmp_path / "t.zip").code == 0
