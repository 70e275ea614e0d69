"""The index answers as the files do, whatever happened to them or to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from splitbench.store import index
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store
from tests.runner.test_store import outcome


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FEW", 2)


def many(i: int, value: float = 0.5) -> Outcome:
    each = (value, 0.1 * i, 1 / 3)
    scores = (
        Score("ssim", "wang2004", sum(each) / 3, 3, each, "clamp"),
        Score("ssim", "wang2004", 0.25, 3, each[::-1], "minmax"),
        Score("mcc", "1", 0.1, 2),
    )
    return outcome(f"key{i}", scores=scores if i % 3 else (), samples=(7, 3, 9) if i % 3 else (), created=float(i),
                   costs={"seconds": 0.1 * i, "loss": float("inf")}, cell={"run": {"x": [1, {"é": None}]}})  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    for i in range(9):
        made.put(many(i))
    return made


def direct(store: Store) -> list[Outcome]:
    return sorted(map(Outcome.read, (store.path / "outcomes").glob("*.parquet")), key=lambda o: (o.created, o.key))


def test_it_tells_what_the_files_tell(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = store.outcomes()
    assert (store.path / ".index.arrow").is_file()
    read: list[Path] = []
    monkeypatch.setattr(Outcome, "read", classmethod(lambda cls, path: read.append(path)))
    second, damaged = store.outcomes()
    monkeypatch.undo()
    assert not read, "all of it came from the index"
    assert first == second == direct(store) == [many(i) for i in range(9)]
    assert not damaged


def test_what_changes_is_noticed(store: Store) -> None:
    store.outcomes()
    old = (store.path / "outcomes" / "key4.parquet").stat()
    store.put(many(4, 0.75))
    path = store.path / "outcomes" / "key4.parquet"
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_size == old.st_size, "the same size and the same time, and yet another file"
    (store.path / "outcomes" / "key5.parquet").unlink()
    store.put(many(20))
    found, _ = store.outcomes()
    assert found == direct(store)
    assert [o.key for o in found] == ["key0", "key1", "key2", "key3", "key4", "key6", "key7", "key8", "key20"]
    assert found[4].scores[0].values[0] == 0.75


@pytest.mark.parametrize("spoilt", [b"", b"ARROW1", b"nonsense" * 99])
def test_a_broken_index_is_made_again(store: Store, spoilt: bytes) -> None:
    store.outcomes()
    (store.path / ".index.arrow").write_bytes(spoilt)
    assert store.outcomes()[0] == direct(store)
    assert (store.path / ".index.arrow").stat().st_size > len(spoilt)


def test_an_index_of_another_version_is_not_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.outcomes()
    monkeypatch.setattr(index, "_INDEX", index._INDEX.with_metadata({b"splitbench": b"0"}))
    assert index._open(store.path / ".index.arrow") is None
    assert store.outcomes()[0] == direct(store)


def test_damage_is_reported_every_time_and_costs_nothing_else(store: Store) -> None:
    whole = (store.path / "outcomes" / "key1.parquet").read_bytes()
    (store.path / "outcomes" / "short.parquet").write_bytes(whole[: len(whole) // 2])
    (store.path / "outcomes" / ".draft.parquet").write_bytes(b"unfinished")
    for _ in range(3):
        found, damaged = store.outcomes()
        assert len(found) == 9
        assert [d.path.name for d in damaged] == ["short.parquet"]


def test_a_store_that_may_not_be_written_is_read_all_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Store, "_write", refuse)
    assert len(store.outcomes()[0]) == 9
    assert not (store.path / ".index.arrow").exists()


def test_a_small_store_has_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "FEW", 64)
    store = Store(tmp_path)
    store.put(many(1))
    assert store.outcomes()[0] == [many(1)]
    assert not (tmp_path / ".index.arrow").exists()


def test_an_empty_or_absent_folder_has_nothing(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere").outcomes() == ([], [])


def test_what_is_remembered_is_what_the_files_still_say(store: Store) -> None:
    store.outcomes()
    with index.remembering():
        before, _ = store.outcomes()
        again, _ = store.outcomes()
        assert all(a is b for a, b in zip(before, again, strict=True))
        store.put(many(4, value=0.9))
        after, _ = store.outcomes()
        assert after == direct(store)
        assert after != before
    fresh, _ = store.outcomes()
    assert fresh == after
    assert not any(a is b for a, b in zip(after, fresh, strict=True))


def test_who_writes_keeps_it_so_that_who_asks_first_need_not_read_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("splitbench.store.store.FEW", 2)
    store = Store(tmp_path)
    for i in range(20):
        store.put(many(i))
    read: list[Path] = []
    plain = Outcome.read
    monkeypatch.setattr(Outcome, "read", classmethod(lambda cls, path: (read.append(path), plain(path))[1]))
    assert len(Store(tmp_path).outcomes()[0]) == 20
    assert len(read) <= 2
