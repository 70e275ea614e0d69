"""Written whole or not at all; shared by any number of processes; damage is reported and loses nothing else."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.errors import SplitbenchError
from splitbench.store.lease import Process, this_process
from splitbench.store.outcome import SCHEMA, SCHEMA_VERSION, Outcome, Score
from splitbench.store.store import Store


def outcome(key: str = "a" * 16, **changes: object) -> Outcome:
    base = Outcome(
        key=key, run="r" * 16, kind="attack", status="done", reason="", scale="smoke", dataset="d", model="m", cut="c",
        topology="vanilla", clients=1, defense="none", attack="black", seed=0, created=1.5, cell={"run": {"x": 1}},
        provenance={"torch": "2"},
        scores=(Score("ssim", "wang2004", 0.25, 2, (0.0, 0.5), "clamp"), Score("mcc", "1", 0.1, 2)),
        costs={"seconds": 2.0}, samples=(7, 3),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def test_an_outcome_comes_back_as_it_went(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(outcome())
    assert store.get("a" * 16) == outcome()
    assert store.outcomes() == ([outcome()], [])


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30, deadline=None)
@given(values=st.lists(finite, min_size=1, max_size=9), reason=st.text(max_size=30))
def test_any_values_survive_the_file(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], reason: str
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    score = Score("mse", "1", values[0], len(values), tuple(values))
    put = outcome(scores=(score,), samples=tuple(range(len(values))), reason=reason)
    store.put(put)
    assert store.get(put.key) == put


def test_the_file_has_the_published_schema(tmp_path: Path) -> None:
    Store(tmp_path).put(outcome())
    [path] = (tmp_path / "outcomes").glob("*.parquet")
    assert pq.read_schema(path).equals(SCHEMA)


def test_a_damaged_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(outcome("a" * 16))
    store.put(outcome("b" * 16))
    path = tmp_path / "outcomes" / ("b" * 16 + ".parquet")
    path.write_bytes(path.read_bytes()[:100])
    found, damaged = store.outcomes()
    assert [o.key for o in found] == ["a" * 16]
    assert [d.path for d in damaged] == [path]
    assert store.get("b" * 16) is None


def test_a_file_of_another_schema_is_not_read_as_ours(tmp_path: Path) -> None:
    import pyarrow as pa

    store = Store(tmp_path)
    store.put(outcome())
    pq.write_table(pa.table({"x": [1]}), tmp_path / "outcomes" / "foreign.parquet")
    older = pq.read_table(tmp_path / "outcomes" / ("a" * 16 + ".parquet"))
    older = older.set_column(0, SCHEMA.field("schema"), pa.array([0], pa.int32()))
    pq.write_table(older, tmp_path / "outcomes" / "older.parquet")
    found, damaged = store.outcomes()
    assert len(found) == 1
    assert {d.path.name: d.reason for d in damaged} == {
        "foreign.parquet": "not an outcome of splitbench",
        "older.parquet": f"schema 0, this version of splitbench reads {SCHEMA_VERSION}",
    }


def test_a_full_disk_loses_nothing_and_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.put(outcome("a" * 16))
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(SplitbenchError, match="no space left"):
        store.put(outcome("a" * 16, reason="newer"))
    with pytest.raises(SplitbenchError, match="no space left"):
        store.put_run("r" * 16, lambda folder: (folder / "weights").write_text("w") and None)
    monkeypatch.undo()
    assert store.get("a" * 16) == outcome("a" * 16)
    assert store.runs() == []
    assert [p.name for p in (tmp_path / "outcomes").iterdir()] == ["a" * 16 + ".parquet"]


def _full(handle: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_store_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SplitbenchError, match="cannot write to the store"):
        Store(tmp_path / "file" / "runs").open_for_writing()


def test_a_run_is_found_by_any_prefix_that_is_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for key in ("abc1", "abd2", "f00d"):
        store.put_run(key, lambda folder: None)
    store.mark_latest("abd2")
    assert store.find_run("f") == "f00d"
    assert store.find_run("abc") == "abc1"
    assert store.find_run("latest") == "abd2"
    with pytest.raises(SplitbenchError, match="ambiguous: abc1, abd2"):
        store.find_run("ab")
    with pytest.raises(SplitbenchError, match=r"no run 'f00f'.*did you mean 'f00d'"):
        store.find_run("f00f")
    with pytest.raises(SplitbenchError, match="no run ''"):
        store.find_run("")
    with pytest.raises(SplitbenchError, match="`splitbench train` makes one"):
        Store(tmp_path / "empty").find_run("latest")


def test_the_first_to_finish_a_run_wins(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def second(folder: Path) -> None:
        store.put_run("run", lambda inner: (inner / "weights").write_text("first") and None)
        (folder / "weights").write_text("second")

    store.put_run("run", second)
    assert (store.run_folder("run") / "weights").read_text() == "first"
    assert store.runs() == ["run"]
    assert len(list((tmp_path / "trained").iterdir())) == 1


def _hold(path: Path, ready: object, release: object) -> None:
    with Store(path).claim("k") as mine:
        assert mine
        ready.set()  # type: ignore[attr-defined]
        release.wait(30)  # type: ignore[attr-defined]


def test_a_claim_keeps_others_out_until_its_holder_dies(tmp_path: Path) -> None:
    store = Store(tmp_path).open_for_writing()
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(tmp_path, ready, release))
    holder.start()
    assert ready.wait(30)
    with store.claim("k") as mine:
        assert not mine
    holder.kill()
    holder.join()
    with store.claim("k") as mine:
        assert mine


def draft(folder: Path, process: Process, name: str = "x") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{name}.{process.host}.{process.pid}.{process.start}.0123456789ab"


def test_what_a_killed_process_left_is_swept_wherever_it_was_at_work(tmp_path: Path) -> None:
    store = Store(tmp_path).open_for_writing()
    me = this_process()
    gone = Process(me.host, 2**22 - 1, "1")
    places = [
        tmp_path,
        tmp_path / "outcomes",
        tmp_path / "trained",
        tmp_path / "plans",
        tmp_path / "trained/run/attacks",
    ]
    left = [draft(place, gone, "a.parquet") for place in places]
    mine = [draft(place, me) for place in places]
    for path in [*left[1:], *mine]:
        path.touch()
    left[0].mkdir()
    (left[0] / "weights").touch()
    others = [tmp_path / ".index.arrow", tmp_path / "outcomes" / ".hidden"]
    for path in others:
        path.touch()
    store.sweep()
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in [*mine, *others])


def test_what_is_written_on_another_machine_is_swept_only_when_nothing_was_heard_of_it_for_long(tmp_path: Path) -> None:
    store = Store(tmp_path).open_for_writing()
    working, holding, dead = (Process("elsewhere", i, "1") for i in range(3))
    paths = {process: draft(tmp_path / "trained", process) for process in (working, holding, dead)}
    for process, path in paths.items():
        path.mkdir()
        (path / "weights").touch()
        old = [path, path / "weights"] if process != working else [path]
        for file in old:
            os.utime(file, (0, 0))
    (tmp_path / "leases").mkdir()
    claimed = {"host": holding.host, "pid": holding.pid, "start": holding.start, "token": "t"}
    (tmp_path / "leases" / "k.json").write_text(json.dumps(claimed))
    store.sweep()
    assert {process for process, path in paths.items() if path.exists()} == {working, holding}


def test_a_draft_carries_who_writes_it(tmp_path: Path) -> None:
    seen: list[str] = []
    Store(tmp_path).put_run("run", lambda folder: seen.append(folder.name))
    me = this_process()
    assert seen[0].startswith(f".run.{me.host}.{me.pid}.{me.start}.")


def test_the_first_read_out_ranks() -> None:
    scores = (Score("ssim", "1", 0.9, 1, (), "minmax"), Score("ssim", "1", 0.1, 1, (), "clamp"))
    row = outcome(scores=scores)
    assert row.ranked == {"ssim": 0.9}
    assert row.score("ssim") == scores[0]
