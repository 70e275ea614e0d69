"""Where results live: a folder per run, and one Parquet file per outcome, written whole or not at all.

    <store>/trained/<run>/      recipe.yaml provenance.json weights.safetensors samples.safetensors ...
    <store>/outcomes/<key>.parquet
    <store>/plans/<recipe>@<scale>.json
    <store>/leases/<key>.json   who is at work on a cell
    <store>/latest              the run that was trained last
    <store>/.index.arrow        what was read of many outcomes; made again when it is gone

Any number of processes may share a store. A name appears only when what it names is complete; a file whose name
begins with a dot is somebody's unfinished work: `.<name>.<host>.<process>.<its start>.<digits>`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.store.index import FEW, read_all
from splitbench.store.lease import Leases, Process, now_at, silent, this_process
from splitbench.store.outcome import Outcome

_DRAFT = re.compile(r"\..+\.(?P<host>[A-Za-z0-9-]+)\.(?P<pid>\d+)\.(?P<start>\w+)\.[0-9a-f]{12}")


def default_path() -> Path:
    return Path(os.environ.get("SPLITBENCH_STORE", "runs"))


@dataclass(frozen=True)
class Damage:
    """A file of the store that cannot be read, and why."""

    path: Path
    reason: str


class Store:
    def __init__(self, path: Path | str | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._unread = 0  # outcomes put since the index was last brought up to date
        self._leases = Leases(self.path / "leases")

    # -- outcomes ------------------------------------------------------------------------------------------------

    @property
    def _outcomes(self) -> Path:
        return self.path / "outcomes"

    def get(self, key: str) -> Outcome | None:
        """The outcome of a cell, or None if there is none that can be read."""
        path = self.outcome_file(key)
        if not path.is_file():
            return None
        try:
            return Outcome.read(path)
        except (OSError, ValueError):
            return None  # damaged: run the cell again; `outcomes` reports it

    def outcome_file(self, key: str) -> Path:
        return self._outcomes / f"{key}.parquet"

    def put(self, outcome: Outcome) -> None:
        self._write(self.outcome_file(outcome.key), outcome.write)
        self._unread += 1
        if self._unread > FEW:  # now and then by a writer, so that a reader never waits for all of them
            self.outcomes()
            self._unread = 0

    def outcomes(self) -> tuple[list[Outcome], list[Damage]]:
        """Everything that can be read, oldest first, and what cannot."""
        found, failed = read_all(self._outcomes, self.path / ".index.arrow", self._write_index)
        return sorted(found, key=lambda outcome: (outcome.created, outcome.key)), [Damage(*one) for one in failed]

    def _write_index(self, target: Path, fill: Callable[[Path], None]) -> None:
        with contextlib.suppress(OSError, SplitbenchError):  # a store that may only be read, or a full disk
            self._write(target, fill)

    # -- runs ----------------------------------------------------------------------------------------------------

    @property
    def _trained(self) -> Path:
        return self.path / "trained"

    def runs(self) -> list[str]:
        if not self._trained.is_dir():
            return []
        return sorted(p.name for p in self._trained.iterdir() if p.is_dir() and not p.name.startswith("."))

    def lost(self, outcomes: Iterable[Outcome]) -> list[str]:
        """Runs with rows here whose folder is gone. A store that never had folders, only rows, has lost none."""
        if not self._trained.is_dir():
            return []
        here = set(self.runs())
        return sorted({o.run for o in outcomes if o.kind == "train" and o.status == "done"} - here)

    def run_folder(self, key: str) -> Path:
        return self._trained / key

    def find_run(self, given: str) -> str:
        """The run meant by an id, a unique prefix of one, or `latest`."""
        runs = self.runs()
        if not runs:
            raise SplitbenchError(f"no runs in {self.path}; `splitbench train` makes one")
        if given == "latest":
            pointer = self.path / "latest"
            latest = pointer.read_text().strip() if pointer.is_file() else ""
            if latest in runs:
                return latest
            return max(runs, key=lambda run: self.run_folder(run).stat().st_mtime)
        matches = [run for run in runs if given and run.startswith(given)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise SplitbenchError(f"run id '{given}' is ambiguous: {', '.join(matches)}; give more characters")
        raise SplitbenchError(f"no run '{given}' in {self.path}{nearest(given, [*runs, 'latest'])}")

    def put_run(self, key: str, fill: Callable[[Path], None]) -> Path:
        """Make a run's folder, whole or not at all; one that is there already stays."""
        target = self.run_folder(key)
        if not target.is_dir():
            self._write(target, fill, folder=True)
        return target

    def put_beside(self, path: Path, fill: Callable[[Path], None]) -> None:
        """Write a further file of a run, whole or not at all."""
        self._write(path, fill)

    def mark_latest(self, key: str) -> None:
        self._write_text(self.path / "latest", key + "\n")

    # -- plans ---------------------------------------------------------------------------------------------------

    def put_plan(self, name: str, scale: str, plan: Mapping[str, Any]) -> None:
        """What a recipe planned, so that its table can be made, gaps included, without planning it again."""
        self._write_text(self._plan(name, scale), json.dumps(plan, indent=1) + "\n")

    def plan(self, name: str, scale: str) -> dict[str, Any] | None:
        path = self._plan(name, scale)
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("cells"), list):
            raise SplitbenchError(f"{path} cannot be read; `splitbench run {name}` writes it again")
        return found

    def plans(self) -> list[tuple[str, str]]:
        """The recipes that were run here, with their scales."""
        found = [p.stem.rsplit("@", 1) for p in sorted((self.path / "plans").glob("[!.]*@*.json"))]
        return [(name.replace("--", "/"), scale) for name, scale in found]

    def _plan(self, name: str, scale: str) -> Path:
        return self.path / "plans" / f"{name.replace('/', '--')}@{scale}.json"

    # -- how things are written ----------------------------------------------------------------------------------

    def open_for_writing(self) -> Store:
        """Refuse at once, before anything expensive, if nothing could be stored."""
        probe = self.path / f".probe-{uuid.uuid4().hex}"
        try:
            self._outcomes.mkdir(parents=True, exist_ok=True)
            self._trained.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise SplitbenchError(
                f"cannot write to the store {self.path} ({error.strerror}); "
                "choose another with --store or SPLITBENCH_STORE"
            ) from error
        return self

    def _write_text(self, target: Path, text: str) -> None:
        def fill(path: Path) -> None:
            path.write_text(text, encoding="utf-8")

        self._write(target, fill)

    def _write(self, target: Path, fill: Callable[[Path], None], folder: bool = False) -> None:
        me = this_process()
        draft = target.with_name(f".{target.name}.{me.host}.{me.pid}.{me.start}.{uuid.uuid4().hex[:12]}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if folder:
                draft.mkdir()
            fill(draft)
            for path in draft.rglob("*") if folder else [draft]:
                _sync(path)
            _publish(draft, target, folder)
            _sync(target.parent)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise SplitbenchError(
                    f"no space left for {target}; what was stored before is whole. Free some space and run the "
                    "same command again: it resumes from there."
                ) from error
            raise
        finally:
            if draft.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)

    @contextmanager
    def claim(self, key: str, wait: bool = False) -> Iterator[bool]:
        """Whether this cell is ours to work on. The claim ends with the process, however that ends."""
        with self._leases.hold(key, wait) as mine:
            yield mine

    def sweep(self) -> None:
        """Remove what dead processes left unfinished. Of another machine's process that cannot be asked, only what
        nobody has touched for a long time, unless it still holds a lease."""
        if not self.path.is_dir():
            return
        self._leases.sweep()
        now = now_at(self.path)
        holders = self._leases.holders()
        for draft in self._drafts():
            found = _DRAFT.fullmatch(draft.name)
            if found is None:
                continue
            owner = Process(found["host"], int(found["pid"]), found["start"])
            alive = owner.alive
            if alive is None:
                alive = owner in holders or not all(silent(path, now) for path in (draft, *draft.rglob("*")))
            if not alive:
                shutil.rmtree(draft, ignore_errors=True) if draft.is_dir() else draft.unlink(missing_ok=True)

    def _drafts(self) -> Iterator[Path]:
        for folder in (self.path, self._outcomes, self._trained, self.path / "plans"):
            yield from folder.glob(".*")
        for pattern in ("[!.]*/.*", "[!.]*/attacks/.*"):
            yield from self._trained.glob(pattern)


def _publish(draft: Path, target: Path, folder: bool) -> None:
    if not folder:
        draft.replace(target)
        return
    try:
        draft.rename(target)
    except OSError as error:
        # Somebody else finished the same run first; runs are deterministic, so theirs is ours.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _sync(path: Path) -> None:
    """Down to the disk, so that a name never outlives its contents in a power cut."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
