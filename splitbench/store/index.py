"""Many outcomes at once: what was read before is kept in one file beside them, which can be deleted at any time.

A row of the index counts only while the file it was read from has the same name, size, time and inode; a file that is
written anew is another inode. Files that cannot be read are never in it, so that they are reported every time.
"""

from __future__ import annotations

import functools
import gc
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pyarrow as pa

from splitbench.store.outcome import SCHEMA, SCHEMA_VERSION, Outcome, Score

FEW = 64  # files that are read as fast as an index is opened
VERSION = b"2." + str(SCHEMA_VERSION).encode()
Failed = tuple[Path, str]

_HEADS = {
    **dict.fromkeys(("metric", "version", "readout", "against", "leaks_when"), pa.string()),
    **dict.fromkeys(("value", "tolerance"), pa.float64()),
    "n": pa.int64(),
    "utility": pa.bool_(),
    "count": pa.int64(),  # of its values
    "own": pa.int64(),  # of the samples that it alone is about
}
_PLAIN = [f for f in SCHEMA if f.name not in ("schema", "metrics", "samples", "costs", "bars")]
_INDEX = pa.schema(
    [
        *(pa.field(name, kind) for name, kind in (("file", pa.string()), ("size", pa.int64()), ("time", pa.int64()),
                                                  ("inode", pa.uint64()))),
        *_PLAIN,
        pa.field("costs", pa.string()),
        pa.field("bars", pa.string()),
        *(pa.field(name, pa.list_(kind)) for name, kind in _HEADS.items()),
        pa.field("values", pa.list_(pa.float64())),  # of all scores, one after the other
        pa.field("owned", pa.list_(pa.int64())),
        pa.field("images", pa.list_(pa.int64())),
    ],
    metadata={b"splitbench": VERSION},
)  # fmt: skip


def read_all(
    folder: Path, index: Path, save: Callable[[Path, Callable[[Path], None]], None]
) -> tuple[list[Outcome], list[Failed]]:
    """Every outcome of a folder, in the order of their names, and what cannot be read."""
    there = _listed(folder)
    if len(there) <= FEW:
        return _read_files([folder / name for name in there])
    kept = _MEMORY.get()
    if kept is None:
        return _read_many(folder, index, there, save)
    if folder not in kept or kept[folder][0] != there:
        kept[folder] = there, *_read_many(folder, index, there, save)
    _, outcomes, failed = kept[folder]
    return list(outcomes), list(failed)


_Listing = dict[str, tuple[int, int, int]]
_Read = tuple[_Listing, list[Outcome], list[Failed]]
_MEMORY: ContextVar[dict[Path, _Read] | None] = ContextVar("memory", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """For many questions to one store: what was read is kept while no file of it changes."""
    token = _MEMORY.set({})
    try:
        yield
    finally:
        _MEMORY.reset(token)


def _read_many(
    folder: Path,
    index: Path,
    there: _Listing,
    save: Callable[[Path, Callable[[Path], None]], None],
) -> tuple[list[Outcome], list[Failed]]:
    kept = _kept(index, there)
    known = set(kept.column("file").to_pylist()) if kept is not None else set()
    fresh = [name for name in there if name not in known]
    outcomes, failed = _read_files([folder / name for name in fresh])
    if len(outcomes) > FEW or (kept is not None and len(kept) + FEW < _rows(index)):
        lost = {path.name for path, _ in failed}
        written = [name for name in fresh if name not in lost]
        table = _table(outcomes, [(name, *there[name]) for name in written])
        whole = pa.concat_tables([kept, table]) if kept is not None else table
        save(index, lambda draft: _write(whole, draft))
    if kept is not None:
        outcomes = [*_outcomes(kept), *outcomes]
    return outcomes, failed


def _listed(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The finished files, with what changes when a file does."""
    if not folder.is_dir():
        return {}
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".parquet") and not entry.name.startswith("."):
                try:
                    known = entry.stat()
                except FileNotFoundError:  # gone between the two
                    continue
                found[entry.name] = known.st_size, known.st_mtime_ns, known.st_ino
    return dict(sorted(found.items()))


def _read_files(paths: Sequence[Path]) -> tuple[list[Outcome], list[Failed]]:
    def read(path: Path) -> Outcome | str:
        try:
            return Outcome.read(path)
        except (OSError, ValueError) as error:
            return str(error).splitlines()[0]

    if len(paths) <= FEW:
        found = [read(path) for path in paths]
    else:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            found = list(pool.map(read, paths))
    failed = [(path, one) for path, one in zip(paths, found, strict=True) if isinstance(one, str)]
    return [one for one in found if not isinstance(one, str)], failed


def _open(index: Path) -> pa.Table | None:
    try:
        with pa.memory_map(str(index)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, ValueError):  # none yet, or not whole: it is made again
        return None
    return table if table.schema.equals(_INDEX, check_metadata=True) else None


def _rows(index: Path) -> int:
    table = _open(index)
    return 0 if table is None else len(table)


def _kept(index: Path, there: dict[str, tuple[int, int, int]]) -> pa.Table | None:
    """The rows of the index that still are what the files say."""
    table = _open(index)
    if table is None:
        return None
    names, *marks = (table.column(name).to_pylist() for name in ("file", "size", "time", "inode"))
    true = [there.get(name) == mark for name, mark in zip(names, zip(*marks, strict=True), strict=True)]
    return table if all(true) else table.filter(pa.array(true))


def _table(outcomes: Sequence[Outcome], files: Sequence[tuple[str, int, int, int]]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in _INDEX.names}
    for outcome, mark in zip(outcomes, files, strict=True):
        for name, value in zip(("file", "size", "time", "inode"), mark, strict=True):
            columns[name].append(value)
        for field in _PLAIN:
            value = getattr(outcome, field.name)
            columns[field.name].append(json.dumps(dict(value)) if field.name in ("cell", "provenance") else value)
        columns["costs"].append(json.dumps(dict(outcome.costs)))
        columns["bars"].append(json.dumps(outcome.bars))
        for name in _HEADS:
            if name not in ("count", "own"):
                columns[name].append([getattr(score, name) for score in outcome.scores])
        columns["count"].append([len(score.values) for score in outcome.scores])
        columns["own"].append([len(score.samples) for score in outcome.scores])
        columns["owned"].append([sample for score in outcome.scores for sample in score.samples])
        columns["values"].append([value for score in outcome.scores for value in score.values])
        columns["images"].append(outcome.samples)
    return pa.table({name: pa.array(v, _INDEX.field(name).type) for name, v in columns.items()}, schema=_INDEX)


def _write(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _INDEX) as writer:
        writer.write_table(table.combine_chunks())


def _outcomes(table: pa.Table) -> list[Outcome]:
    """Rows as objects, column by column: a large store is read at every question."""
    collecting = gc.isenabled()
    gc.disable()  # it would look through millions of new objects again and again, and find nothing to collect
    try:
        return _made(table)
    finally:
        if collecting:
            gc.enable()


def _made(table: pa.Table) -> list[Outcome]:
    names = [field.name for field in _PLAIN]
    plain = {name: _listed_column(table.column(name)) for name in names}
    plain["cell"] = list(map(json.loads, plain["cell"]))
    plain["provenance"] = list(map(functools.cache(json.loads), plain["provenance"]))  # the same for most
    costs = list(map(json.loads, table.column("costs").to_pylist()))
    bars = list(map(functools.cache(_bars), table.column("bars").to_pylist()))
    images = _parts(table, "images")
    heads = {name: _flat(table, name) for name in _HEADS}
    counts, own = heads.pop("count"), heads.pop("own")
    values, at = _flat(table, "values"), 0
    owned, one = _flat(table, "owned"), 0
    scores: list[Score] = []
    for count, mine, *told in zip(counts, own, *heads.values(), strict=True):
        several = tuple(values[at : at + count])
        scores.append(
            Score(**dict(zip(heads, told, strict=True)), values=several, samples=tuple(owned[one : one + mine]))
        )
        at, one = at + count, one + mine
    found, begin = [], 0
    rows = zip(_lengths(table, "metric"), costs, bars, images, *plain.values(), strict=True)
    for some, cost, bar, image, *cells in rows:
        fields = dict(zip(names, cells, strict=True))
        found.append(Outcome(**fields, bars=bar, scores=tuple(scores[begin : begin + some]), costs=cost, samples=image))
        begin += some
    return found


def _bars(text: str) -> tuple[tuple[str, float], ...]:
    return tuple((metric, float(value)) for metric, value in json.loads(text))


def _flat(table: pa.Table, name: str) -> list[Any]:
    return [value for chunk in table.column(name).chunks for value in _listed_column(chunk.flatten())]


def _parts(table: pa.Table, name: str) -> list[tuple[Any, ...]]:
    flat, found, at = _flat(table, name), [], 0
    for length in _lengths(table, name):
        found.append(tuple(flat[at : at + length]))
        at += length
    return found


def _listed_column(column: Any) -> list[Any]:
    """As Python values, each text that occurs again and again made once."""
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    found: list[Any] = []
    for chunk in getattr(column, "chunks", [column]):
        coded = chunk.dictionary_encode()
        words = coded.dictionary.to_pylist()
        found += [words[i] for i in coded.indices.to_pylist()]
    return found


def _lengths(table: pa.Table, name: str) -> list[int]:
    return [int(n) for chunk in table.column(name).chunks for n in chunk.value_lengths().to_pylist()]
