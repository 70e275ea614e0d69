"""One holder at a time, whatever is killed, and nobody who may be alive is robbed."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from splitbench.store import lease
from splitbench.store.lease import LIMIT, Leases, Process, now_at, this_process

WORKER = """
import os, random, sys, time
from pathlib import Path
from splitbench.store.lease import Leases

folder, log, seconds, seed = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
draw, end = random.Random(seed), time.monotonic() + seconds
with log.open("w", buffering=1) as lines:
    while time.monotonic() < end:
        with Leases(folder).hold("k", wait=draw.random() < 0.5) as mine:
            if mine:
                lines.write(f"in {time.monotonic()!r}\\n")
                time.sleep(draw.random() * 0.002)
                lines.write(f"out {time.monotonic()!r}\\n")
"""


def intervals(log: Path, killed: float | None) -> list[tuple[float, float]]:
    """When this process held the lease; if it was killed while it did, at least until it was."""
    found: list[tuple[float, float]] = []
    begun: float | None = None
    for line in log.read_text().splitlines():
        word, _, when = line.partition(" ")
        if word == "in":
            begun = float(when)
        elif begun is not None:
            found.append((begun, float(when)))
            begun = None
    if begun is not None:
        assert killed is not None
        found.append((begun, killed))
    return found


def work(folder: Path, log: Path, seconds: float, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(folder), str(log), str(seconds), str(seed)])


@pytest.mark.parametrize("links", [True, False])
def test_many_processes_of_which_some_are_killed_never_hold_a_lease_together(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:  # a file system without hard links
        broken = "import errno, os\ndef link(*_):\n    raise OSError(errno.EPERM, 'no links')\nos.link = link\n"
        (tmp_path / "sitecustomize.py").write_text(broken)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    folder, draw = tmp_path / "leases", random.Random(0)
    workers = {i: work(folder, tmp_path / f"log{i}", 4.0, i) for i in range(6)}
    killed: dict[int, float] = {}
    for i in range(6, 18):  # one after the other is killed, and another takes its place
        time.sleep(0.2 + draw.random() * 0.1)
        victim = draw.choice([n for n in workers if n not in killed])
        killed[victim] = time.monotonic()
        workers[victim].kill()
        workers[i] = work(folder, tmp_path / f"log{i}", 1.5, i)
    for worker in workers.values():
        worker.wait(60)
    assert all(worker.returncode == 0 for i, worker in workers.items() if i not in killed)
    held = sorted(
        span for i in workers if (log := tmp_path / f"log{i}").exists() for span in intervals(log, killed.get(i))
    )
    overlaps = [(one, other) for one, other in itertools.pairwise(held) if other[0] < one[1]]
    assert len(held) > 100
    assert overlaps == []
    Leases(folder).sweep()
    kept = [path for path in folder.iterdir() if not path.name.startswith(".")]  # too young to be known as left over
    assert kept == []


def leave(folder: Path, key: str, process: Process, age: float = 0.0) -> Path:
    """A lease as another process would have made it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{key}.json"
    path.write_text(json.dumps({"host": process.host, "pid": process.pid, "start": process.start, "token": "t"}))
    then = now_at(folder) - age
    os.utime(path, (then, then))
    return path


ME = this_process()
GONE = Process(ME.host, 2**22 - 1, "1")


@pytest.mark.parametrize(
    ("process", "age", "free"),
    [
        (ME, 10 * LIMIT, False),  # it is there: it may well be stopped for a while
        (Process(ME.host, ME.pid, "1"), 0.0, True),  # another process has its number now
        (GONE, 0.0, True),
        (Process("elsewhere", ME.pid, ME.start), LIMIT / 2, False),  # cannot be asked, and was heard of
        (Process("elsewhere", GONE.pid, "1"), 0.0, False),
        (Process("elsewhere", ME.pid, ME.start), 2 * LIMIT, True),
    ],
)
def test_a_lease_is_taken_over_only_from_the_dead(tmp_path: Path, process: Process, age: float, free: bool) -> None:
    path = leave(tmp_path, "k", process, age)
    before = path.read_text()
    with Leases(tmp_path).hold("k") as mine:
        assert mine is free
        with Leases(tmp_path).hold("k") as second:
            assert not second
    assert list(tmp_path.iterdir()) == ([] if free else [path])
    if not free:
        assert path.read_text() == before


@pytest.mark.parametrize(("age", "free"), [(0.0, False), (2 * LIMIT, True)])
def test_a_lease_that_cannot_be_read_is_somebodys_until_it_is_old(tmp_path: Path, age: float, free: bool) -> None:
    path = tmp_path / "k.json"
    path.touch()
    then = now_at(tmp_path) - age
    os.utime(path, (then, then))
    with Leases(tmp_path).hold("k") as mine:
        assert mine is free


def test_of_many_takers_of_a_dead_lease_one_succeeds(tmp_path: Path) -> None:
    for _ in range(20):
        leave(tmp_path, "k", GONE)
        together, taken = threading.Barrier(8), []

        def take(together: threading.Barrier = together, taken: list[bool] = taken) -> None:
            together.wait()
            with Leases(tmp_path).hold("k") as mine:
                taken.append(mine)
                together.wait()

        takers = [threading.Thread(target=take) for _ in range(8)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        assert sorted(taken) == [False] * 7 + [True]
        assert list(tmp_path.iterdir()) == []


def test_one_that_was_taken_for_dead_does_not_end_the_lease_of_its_successor(tmp_path: Path) -> None:
    leases = Leases(tmp_path)
    with leases.hold("k") as mine:
        assert mine
        [path] = tmp_path.iterdir()
        # As a machine finds it that has not heard of us for long.
        path.write_text(json.dumps({**json.loads(path.read_text()), "host": "elsewhere"}))
        os.utime(path, (0, 0))
        successor = leases.hold("k")
        assert successor.__enter__()
    with leases.hold("k") as third:
        assert not third
    successor.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []


def test_a_holder_is_heard_of_while_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.01)
    with Leases(tmp_path).hold("k"):
        [path] = tmp_path.iterdir()
        os.utime(path, (0, 0))
        for _ in range(500):
            if path.stat().st_mtime > 0:
                break
            time.sleep(0.01)
        assert now_at(tmp_path) - path.stat().st_mtime < 60


def test_a_lease_says_who_holds_it(tmp_path: Path) -> None:
    with Leases(tmp_path).hold("k"):
        found = json.loads((tmp_path / "k.json").read_text())
        assert Process(found["host"], found["pid"], found["start"]) == ME
        assert Leases(tmp_path).holders() == {ME}


def test_sweeping_removes_the_dead_and_nobody_else(tmp_path: Path) -> None:
    leave(tmp_path, "dead", GONE)
    (tmp_path / "gone.abc.json").write_text((tmp_path / "dead.json").read_text())  # followed a lease that had ended
    kept = {leave(tmp_path, "mine", ME), leave(tmp_path, "far", Process("elsewhere", 1, "1"))}
    Leases(tmp_path).sweep()
    assert set(tmp_path.iterdir()) == kept


def test_one_that_was_slow_to_take_over_finds_that_others_came_and_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "k", GONE)
    leases, chain = Leases(tmp_path), Leases._chain
    third = leases.hold("k")
    calls = iter(range(100))

    def slow(self: Leases, key: str) -> list[lease._Lease]:
        found = chain(self, key)
        if next(calls) == 0:  # between reading the dead lease and following it
            with leases.hold("k") as second:
                assert second
            assert third.__enter__()
        return found

    monkeypatch.setattr(Leases, "_chain", slow)
    with leases.hold("k") as late:
        assert not late
    third.__exit__(None, None, None)
    assert list(tmp_path.iterdir()) == []
