"""Whether an exported zip is what it says: no file is changed, added or lost, and rows fit the settings they name."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from splitbench.core.errors import SplitbenchError
from splitbench.plan.cells import digest
from splitbench.store.archive import FORMAT, MANIFEST, environment
from splitbench.store.outcome import Outcome

_ROUNDING = 1e-9
_FOLDERS = ("outcomes", "trained", "plans")
_FILES = (MANIFEST, "environment.json", "recipe.yaml", "table.md")
_MANIFEST_LIMIT = 64 << 20


@dataclass
class Verified:
    path: Path
    kind: str = ""
    what: str = ""
    scale: str = ""
    files: int = 0
    rows: int = 0
    runs: int = 0
    digest: str = ""  # of the manifest
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # how this machine differs; no fault
    missing: list[str] = field(default_factory=list)  # what was not there when it was exported


def verify(path: Path, expect: str = "", table: Callable[[Path, str, str], str] | None = None) -> Verified:
    """Every problem at once. Nothing is unpacked but rows, into a folder that is deleted again.

    `expect` is the digest that `export` printed. `table` makes the table of a store, to compare with the one inside.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise SplitbenchError(f"{path} is no zip that can be read: {error}") from error
    with archive:
        unsafe = [problem for info in archive.infolist() if (problem := _unsafe(info))]
        unsafe += [f"'{name}' is in it twice" for name, times in Counter(archive.namelist()).items() if times > 1]
        if unsafe:
            raise SplitbenchError(f"{path} is refused: {'; '.join(sorted(unsafe))}")
        found = Verified(path)
        manifest = _manifest(archive, found)
        if expect and not found.digest.startswith(expect.lower()):
            found.problems.append(f"the manifest's digest is {found.digest}, not {expect}")
        contents = _contents(archive, manifest["files"], found)
        _rows(contents, manifest["files"], found)
        _runs(contents, found)
        _plan(contents, found)
        _here(contents.get("environment.json"), found)
        if table is not None and "table.md" in contents and not found.problems:
            _table(contents, found, table)
    return found


def _unsafe(info: zipfile.ZipInfo) -> str:
    """Why a name may not be in an export, which never leaves its folder."""
    name = info.filename
    parts = PurePosixPath(name).parts
    if info.orig_filename != name or "\\" in name or ":" in name or name.startswith("/") or ".." in parts:
        return f"'{info.orig_filename}' would be written outside of its folder"
    if stat.S_ISLNK(info.external_attr >> 16):
        return f"'{name}' is a link"
    if info.is_dir():
        return ""
    return "" if name in _FILES or (len(parts) > 1 and parts[0] in _FOLDERS) else f"'{name}' does not belong there"


def _manifest(archive: zipfile.ZipFile, found: Verified) -> Mapping[str, Any]:
    try:
        text = archive.read(MANIFEST) if archive.getinfo(MANIFEST).file_size <= _MANIFEST_LIMIT else b""
        manifest = json.loads(text)
        form, files = manifest["format"], manifest["files"]
        promised = [(f["sha256"], f["size"]) for f in files.values()]
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise SplitbenchError(f"{found.path} has no manifest of `splitbench export` that can be read") from error
    if not all(isinstance(digest, str) and isinstance(size, int) for digest, size in promised):
        raise SplitbenchError(f"{found.path} has no manifest of `splitbench export` that can be read")
    if form != FORMAT:
        raise SplitbenchError(f"{found.path} has format {form}, this version of splitbench reads {FORMAT}")
    found.digest = hashlib.sha256(text).hexdigest()
    found.kind, found.what, found.scale = (str(manifest.get(key, "")) for key in ("kind", "what", "scale"))
    found.missing = list(map(str, manifest.get("missing", [])))
    return dict(manifest)


def _contents(archive: zipfile.ZipFile, files: Mapping[str, Any], found: Verified) -> dict[str, bytes]:
    """The small files that are as the manifest says; every other one is a problem."""
    names = {name for name in archive.namelist() if not name.endswith("/")} - {MANIFEST}
    found.problems += [f"{name}: lost, the manifest lists it" for name in sorted(set(files) - names)]
    found.problems += [f"{name}: added, the manifest does not list it" for name in sorted(names - set(files))]
    kept = {}
    for name in sorted(names & set(files)):
        seen, size, parts = hashlib.sha256(), 0, []
        wanted = files[name]
        try:
            with archive.open(name) as file:
                # No more than was promised, whatever the zip would unpack to.
                while size <= wanted["size"] and (block := file.read(1 << 20)):
                    seen.update(block)
                    size += len(block)
                    if not name.endswith((".safetensors", ".png")):
                        parts.append(block)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            found.problems.append(f"{name}: cannot be read ({error})")
            continue
        if (seen.hexdigest(), size) != (wanted["sha256"], wanted["size"]):
            found.problems.append(f"{name}: changed, its digest is not the manifest's")
            continue
        found.files += 1
        kept[name] = b"".join(parts)
    return kept


def _rows(contents: Mapping[str, bytes], files: Mapping[str, Any], found: Verified) -> None:
    for name, content in contents.items():
        if not name.startswith("outcomes/"):
            continue
        try:
            row = Outcome.read(io.BytesIO(content))
        except (OSError, ValueError) as error:
            found.problems.append(f"{name}: no outcome ({str(error).splitlines()[0]})")
            continue
        found.rows += 1
        if name != f"outcomes/{row.key}.parquet":
            found.problems.append(f"{name}: holds the outcome {row.key}")
        own = digest(row.cell.get("run")) if row.kind == "train" else digest(dict(row.cell))
        if own != row.key or digest(row.cell.get("run")) != row.run:
            found.problems.append(f"{name}: its settings are not those of its key (they would be {own})")
        weights = f"trained/{row.run}/weights.safetensors"
        if row.weights and weights in contents and files[weights]["sha256"] != row.weights:
            found.problems.append(f"{name}: speaks of other weights than {weights}")
        for score in row.scores:
            mean = sum(score.values) / len(score.values) if score.values else score.value
            if abs(mean - score.value) > _ROUNDING * max(1.0, abs(score.value)):
                found.problems.append(f"{name}: {score.metric} is {score.value:g}, its images say {mean:g}")


def _runs(contents: Mapping[str, bytes], found: Verified) -> None:
    for name, content in contents.items():
        parts = PurePosixPath(name).parts
        if parts[0] != "trained" or parts[-1] != "recipe.yaml" or len(parts) != 3:
            continue
        found.runs += 1
        try:
            own = digest(yaml.safe_load(content))
        except (yaml.YAMLError, TypeError, ValueError) as error:
            found.problems.append(f"{name}: cannot be read ({type(error).__name__})")
            continue
        if own != parts[1]:
            found.problems.append(f"{name}: its settings are not those of run {parts[1]} (they would be {own})")


def _plan(contents: Mapping[str, bytes], found: Verified) -> None:
    for name, content in contents.items():
        if name.startswith("plans/"):
            try:
                cells = json.loads(content)["cells"]
                absent = [key for key in cells if f"outcomes/{key}.parquet" not in contents]
            except (ValueError, KeyError, TypeError):
                found.problems.append(f"{name}: no plan that can be read")
                continue
            if absent:
                found.missing.append(f"{len(absent)} of {len(cells)} planned rows")


def _here(content: bytes | None, found: Verified) -> None:
    if content is None:
        return
    try:
        theirs = json.loads(content)
        packages = dict(theirs["packages"])
    except (ValueError, KeyError, TypeError):
        found.problems.append("environment.json: cannot be read")
        return
    here = environment()
    for name in ("splitbench", "python", "platform", "machine"):
        if theirs.get(name) != here[name]:
            found.elsewhere.append(f"{name}: {theirs.get(name)} there, {here[name]} here")
    for name in ("torch", "numpy", "timm", "pyarrow", "safetensors"):
        if packages.get(name) != here["packages"].get(name):
            found.elsewhere.append(f"{name}: {packages.get(name)} there, {here['packages'].get(name)} here")


def _table(contents: Mapping[str, bytes], found: Verified, table: Callable[[Path, str, str], str]) -> None:
    """The table inside must be what its rows say."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in contents.items():
            if name.startswith(("outcomes/", "plans/")):
                target = Path(folder) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        try:
            again = table(Path(folder), found.what, found.scale)
        except SplitbenchError as error:
            found.problems.append(f"table.md: cannot be made again ({error})")
            return
    if again.encode() != contents["table.md"]:
        # Another version may lay the table out in another way, which is no fault of the rows.
        other = any(line.startswith("splitbench:") for line in found.elsewhere)
        (found.elsewhere if other else found.problems).append("table.md: is not the table that its rows make here")
