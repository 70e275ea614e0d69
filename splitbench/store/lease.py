"""Who is at work on what: one holder per key, among any number of processes and machines that share a folder.

    leases/<key>.json            the first holder
    leases/<key>.<token>.json    who followed the holder with that token

A lease names its host, process and the start of that process, and its modification time is the heartbeat of the holder.
The holder is the last of the chain that begins with `<key>.json`. A lease ends exactly once, by the exclusive creation
of its successor: by another process if the holder is dead, by the holder itself before it removes the chain. So of two
processes that find the same dead holder one succeeds, and none can remove a lease that it has not read.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import platform
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

BEAT = 10.0  # seconds between heartbeats
LIMIT = 600.0  # seconds without one, after which a process that cannot be asked is taken for dead
_POLL = (0.02, 1.0)  # seconds between looks while waiting: at first, and at most
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True)
class Process:
    """A process as others can recognise it: numbers are used again, a number with its start is not."""

    host: str
    pid: int
    start: str

    @property
    def alive(self) -> bool | None:
        """None if that cannot be known from here: it is on another machine, or hidden from this user."""
        if self.host != _host():
            return None
        if start := _start(self.pid):
            return start == self.start
        return None if _hidden(self.pid) else False


@dataclass(frozen=True)
class _Lease:
    token: str
    process: Process | None  # None: it cannot be read
    path: Path

    @property
    def dead(self) -> bool:
        alive = self.process.alive if self.process is not None else None
        return silent(self.path, now_at(self.path.parent)) if alive is None else not alive


def this_process() -> Process:
    return Process(_host(), os.getpid(), _start(os.getpid()) or "0")


@functools.cache
def _host() -> str:
    """The machine, and on it the space in which process numbers are counted (containers have their own)."""
    try:
        space = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))  # noqa: PTH115
    except OSError:
        space = ""
    name = re.sub(r"[^A-Za-z0-9-]", "-", platform.node()) or "here"
    return f"{name}-{space}" if space else name


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def _start(pid: int) -> str:
    """When a process of this machine began; empty if there is none of that number to be seen."""
    try:
        # The name, which may hold anything, ends with the last bracket.
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "ended" if state in "ZX" else f"{_boot()}{rest[18]}"
    except (OSError, IndexError, ValueError):
        if Path("/proc/self/stat").exists():
            return ""
    import psutil  # for systems that keep no such files

    try:
        return str(round(psutil.Process(pid).create_time() * 1000))
    except psutil.Error:
        return ""


def _hidden(pid: int) -> bool:
    if os.name == "nt":  # where signal 0 is no question
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def silent(path: Path, now: float) -> bool:
    """Whether a file was last changed longer ago than any live process would leave it."""
    try:
        return now - path.stat().st_mtime > LIMIT
    except OSError:
        return False


def now_at(folder: Path) -> float:
    """The time by the clock that stamps files there, which need not be this machine's."""
    probe = folder / f".clock-{uuid.uuid4().hex}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


class Leases:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def hold(self, key: str, wait: bool = False) -> Iterator[bool]:
        """Whether the key is ours. Given back at the end of the block, or by the death of the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        token = uuid.uuid4().hex
        pause = _POLL[0]
        while (mine := self._take(key, token)) is None and wait:
            time.sleep(pause)
            pause = min(2 * pause, _POLL[1])
        if mine is None:
            yield False
            return
        stop = threading.Event()
        beat = threading.Thread(target=_beat, args=(mine, stop), daemon=True, name=f"lease {key}")
        beat.start()
        try:
            yield True
        finally:
            stop.set()
            beat.join()
            self._release(key, token)

    def holders(self) -> set[Process]:
        """Every process that holds a lease and is not dead."""
        leases = [lease for path in self.folder.glob("[!.]*.json") if (lease := _read(path)) is not None]
        return {lease.process for lease in leases if lease.process is not None and not lease.dead}

    def sweep(self) -> None:
        """Remove the leases of dead processes, and what they left unfinished."""
        if not self.folder.is_dir():
            return
        now = now_at(self.folder)
        for draft in self.folder.glob(".*"):
            if silent(draft, now):
                draft.unlink(missing_ok=True)
        for path in self.folder.glob("[!.]*.json"):
            key, *after = path.name.removesuffix(".json").split(".")
            lease = _read(path)
            if lease is None or not lease.dead:
                continue
            chain = self._chain(key)
            if not after or any(link.path == path for link in chain):
                with self.hold(key):  # taken over and given back, so that it ends as any other does
                    pass
            elif after[0] not in {link.token for link in chain}:
                path.unlink(missing_ok=True)  # it followed a lease that had ended: never to be part of a chain again

    def _first(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _after(self, key: str, token: str) -> Path:
        return self.folder / f"{key}.{token}.json"

    def _chain(self, key: str) -> list[_Lease]:
        """From the first holder to the present one."""
        chain: list[_Lease] = []
        path = self._first(key)
        while (lease := _read(path)) is not None:
            chain.append(lease)
            path = self._after(key, lease.token)
        return chain

    def _take(self, key: str, token: str) -> Path | None:
        """The lease, if it could be had."""
        chain = self._chain(key)
        if chain and not chain[-1].dead:
            return None
        path = self._after(key, chain[-1].token) if chain else self._first(key)
        if not _create(path, token):
            return None
        # The chain may have ended since it was read: then we follow nobody.
        if [lease.token for lease in self._chain(key)][-1:] == [token]:
            return path
        path.unlink(missing_ok=True)
        return None

    def _release(self, key: str, token: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # somebody removed the whole folder
            last = self._after(key, token)
            if not _create(last, uuid.uuid4().hex):
                return  # we were taken for dead; the key is another's now
            # The first one first: without it nobody can join the rest.
            for path in [*(lease.path for lease in self._chain(key)), last]:
                path.unlink(missing_ok=True)


def _beat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        with contextlib.suppress(OSError):
            os.utime(path)


def _read(path: Path) -> _Lease | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        process = Process(str(found["host"]), int(found["pid"]), str(found["start"]))
        return _Lease(str(found["token"]), process, path)
    except (ValueError, KeyError, TypeError):
        return _Lease(f"{path.stem.rpartition('.')[2]}x", None, path)


def _create(path: Path, token: str) -> bool:
    """Make the file with its contents at once, unless it is there."""
    text = json.dumps({**asdict(this_process()), "token": token})
    draft = path.with_name(f".{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_without_links(path, text)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _create_without_links(path: Path, text: str) -> bool:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True
