"""A run or a table as one zip that somebody else can check: rows, resolved recipes, weights, transcripts, environment.

Unpacked it is a store. `manifest.json` has the digest of every other file; with the digest of the manifest, sent by
another way than the zip, a receiver can verify that nothing was changed at all.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from splitbench import __version__
from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

FORMAT = 1
MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same contents are the same bytes
_LARGE = (".safetensors", ".png")  # does not get smaller


@dataclass(frozen=True)
class Exported:
    path: Path
    kind: str  # run or table
    what: str
    files: int
    bytes: int
    digest: str  # of the manifest
    missing: tuple[str, ...]  # what the store does not have


def export_run(run: str, rows: Sequence[Outcome], store: Store, target: Path) -> Exported:
    """One run with its rows, and those of its undefended twin, without which they say little."""
    twins = {o.twin for o in rows} - {o.key for o in rows}
    beside = [found for key in sorted(twins) if key and (found := store.get(key)) is not None]
    return _export("run", run, "", [*rows, *beside], [run], store, target, {})


def export_table(
    recipe: str, scale: str, outcomes: Iterable[Outcome], store: Store, target: Path, pages: Mapping[str, str],
    weights: bool = True,
) -> Exported:  # fmt: skip
    """All rows of a recipe, the runs they are about, and the table made of them."""
    plan = store.plan(recipe, scale)
    if plan is None:
        raise SplitbenchError(f"no results of '{recipe}' at scale {scale} in {store.path}")
    wanted = set(plan["cells"])
    rows = [o for o in outcomes if o.key in wanted]
    texts = {**pages, f"plans/{recipe.replace('/', '--')}@{scale}.json": json.dumps(plan, indent=1) + "\n"}
    if recipe in recipes.names():
        texts["recipe.yaml"] = recipes.find(recipe)[1].read_text(encoding="utf-8")
    runs = sorted({o.run for o in rows}) if weights else []
    return _export("table", recipe, scale, rows, runs, store, target, texts)


def environment() -> dict[str, Any]:
    """What the numbers were made with, as far as this machine knows it."""
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    return {
        "splitbench": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
    }


def _export(
    kind: str,
    what: str,
    scale: str,
    rows: Sequence[Outcome],
    runs: Sequence[str],
    store: Store,
    target: Path,
    texts: Mapping[str, str],
) -> Exported:
    if target.exists():
        raise SplitbenchError(f"{target} is there already; give another name with --to, or delete it")
    files: dict[str, Path | bytes] = {name: text.encode() for name, text in texts.items()}
    files["environment.json"] = (json.dumps(environment(), indent=1) + "\n").encode()
    for row in rows:
        files[f"outcomes/{row.key}.parquet"] = store.outcome_file(row.key)
    missing = []
    for run in runs:
        folder = store.run_folder(run)
        inside = sorted(p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else []
        if not inside:
            missing.append(f"trained/{run}")
        files |= {f"trained/{run}/{p.relative_to(folder).as_posix()}": p for p in inside}
    listed = {name: _digest(content) for name, content in sorted(files.items())}
    manifest = {"format": FORMAT, "splitbench": __version__, "kind": kind, "what": what, "scale": scale,
                "missing": missing, "files": listed}  # fmt: skip
    text = (json.dumps(manifest, indent=1) + "\n").encode()
    draft = target.with_name(f".{target.name}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in [(MANIFEST, text), *sorted(files.items())]:
                _add(archive, name, content)
        draft.replace(target)
    except OSError as error:
        raise SplitbenchError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return Exported(target, kind, what, len(files), target.stat().st_size, hashlib.sha256(text).hexdigest(),
                    tuple(missing))  # fmt: skip


def _digest(content: Path | bytes) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    for block in [content] if isinstance(content, bytes) else _blocks(content):
        digest.update(block)
        size += len(block)
    return {"sha256": digest.hexdigest(), "size": size}


def _blocks(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> None:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith(_LARGE) else zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as out:
        for block in [content] if isinstance(content, bytes) else _blocks(content):
            out.write(block)
