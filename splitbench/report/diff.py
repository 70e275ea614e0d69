"""Two runs, or two stores, side by side: what was set, measured and seen otherwise."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splitbench.core.errors import SplitbenchError
from splitbench.report.claims.scorecard import numbers
from splitbench.report.run_rows import find_run, rows_of
from splitbench.report.statistics.bootstrap import Difference, difference
from splitbench.report.statistics.measured import Measured, Seed, flattened
from splitbench.report.tables.sheet import Sheet, Shown
from splitbench.report.unreadable import damage_notes
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store


@dataclass(frozen=True)
class Compared:
    """One metric of one row on both sides."""

    what: str
    metric: str
    difference: Difference | None  # none: it cannot be compared, and `verdict` says why
    verdict: str


@dataclass(frozen=True)
class Pictures:
    """Reconstructions of one attack on both sides."""

    what: str
    images: int
    identical: int
    mean: float  # of the absolute difference of pixels
    largest: float
    at: int  # the image with the largest


@dataclass(frozen=True)
class Diff:
    left: str
    right: str
    settings: tuple[tuple[str, Any, Any], ...]
    metrics: tuple[Compared, ...]
    images: tuple[Pictures, ...] = ()
    notes: tuple[str, ...] = ()

    def sheets(self) -> list[Sheet]:
        sides = (self.left,), (self.right,)
        text = json.dumps
        settings = Sheet(
            f"{self.left} and {self.right}",
            f"{len(self.settings)} settings differ",
            ("setting",),
            tuple((place,) for place, _, _ in self.settings),
            sides,
            tuple((Shown(text(a)), Shown(text(b))) for _, a, b in self.settings),
            self.notes,
            tuple({"setting": place, "left": a, "right": b} for place, a, b in self.settings),
            prose=True,
            about={"about": "settings", "left": self.left, "right": self.right},
        )
        metrics = Sheet(
            "",
            "separable: paired bootstrap over the samples that both have, 95 %",
            ("row", "metric"),
            tuple((m.what, m.metric) for m in self.metrics),
            (("left against right",), ("verdict",)),
            tuple((Shown(numbers(m.difference) if m.difference else "–"), Shown(m.verdict)) for m in self.metrics),
            (),
            tuple(
                {
                    "row": m.what,
                    "metric": m.metric,
                    "verdict": m.verdict,
                    **(vars(m.difference) if m.difference else {}),
                }
                for m in self.metrics
            ),
            prose=True,
            about={"about": "metrics"},
        )
        images = Sheet(
            "",
            "reconstructions, pixel by pixel",
            ("attack",),
            tuple((p.what,) for p in self.images),
            (("images",), ("identical",), ("mean difference",), ("largest",), ("in image",)),
            tuple(
                tuple(map(Shown, (str(p.images), str(p.identical), f"{p.mean:.4f}", f"{p.largest:.4f}", str(p.at))))
                for p in self.images
            ),
            (),
            tuple(vars(p) for p in self.images),
            about={"about": "images"},
        )
        return [settings, metrics, *([images] if self.images else [])]


def diff(left: str, right: str, *, store: Path | str | None = None) -> Diff:
    """Two runs (by id, or as `STORE:RUN`), or the folders of two stores."""
    stores = [_is_store(Path(one)) for one in (left, right)]
    if all(stores):
        return _stores(Store(left), Store(right))
    if any(stores):
        lone, run = (left, right) if stores[0] else (right, left)
        raise SplitbenchError(f"'{lone}' is a store and '{run}' is not: compare two runs, or two stores")
    return _runs(_located(left, store), _located(right, store))


def _is_store(path: Path) -> bool:
    return (path / "outcomes").is_dir()


def _located(given: str, store: Path | str | None) -> tuple[Store, str]:
    place, colon, run = given.rpartition(":")
    return (Store(place), run) if colon and _is_store(Path(place)) else (Store(store), given)


def _runs(one: tuple[Store, str], other: tuple[Store, str]) -> Diff:
    sides, notes = [], []
    for store, given in (one, other):
        outcomes, damaged = store.outcomes()
        run = find_run(outcomes, given, store)
        mine = rows_of(outcomes, run)
        notes += damage_notes(store, damaged, mine)
        sides.append((store, run, mine))
    (store_a, run_a, rows_a), (store_b, run_b, rows_b) = sides
    trained_a, trained_b = (next((o for o in rows if o.kind == "train"), rows[0]) for rows in (rows_a, rows_b))
    a, b = ({**flattened(o.cell["run"]), **flattened(o.provenance, "provenance")} for o in (trained_a, trained_b))
    names_a, names_b = ({_name(o): o for o in rows} for rows in (rows_a, rows_b))
    metrics = [c for name, o in names_a.items() if name in names_b for c in _compared(name, o, names_b[name])]
    for side, names, others in (("left", names_a, names_b), ("right", names_b, names_a)):
        if alone := [name for name in names if name not in others]:
            notes.append(f"only on the {side}: {', '.join(alone)}")
    images = []
    for name, o in names_a.items():
        if name in names_b and o.kind == "attack":
            found = _pictures(name, _guesses(store_a, o), _guesses(store_b, names_b[name]))
            images += [found] if found else []
    return Diff(run_a, run_b, tuple(_unlike(a, b)), tuple(metrics), tuple(images), tuple(dict.fromkeys(notes)))


def _stores(one: Store, other: Store) -> Diff:
    """Row by row: those with the same key, then those that differ in the versions of components alone."""
    (rows_a, damaged_a), (rows_b, damaged_b) = one.outcomes(), other.outcomes()
    notes = [*damage_notes(one, damaged_a, rows_a), *damage_notes(other, damaged_b, rows_b)]
    by_key = {o.key: o for o in rows_b}
    pairs = [(o, by_key[o.key]) for o in rows_a if o.key in by_key]
    paired = {o.key for o, _ in pairs}
    rest = {_unversioned(o): o for o in rows_b if o.key not in paired}
    versions = [(o, rest[_unversioned(o)]) for o in rows_a if o.key not in paired and _unversioned(o) in rest]
    matched_b = paired | {o.key for _, o in versions}
    alone = [o for o in rows_a if o.key not in paired and _unversioned(o) not in rest]
    foreign = [o for o in rows_b if o.key not in matched_b]
    notes.append(f"{len(pairs)} rows have the same key, {len(versions)} differ in versions alone")
    for side, rows in (("left", alone), ("right", foreign)):
        if rows:
            notes.append(f"{len(rows)} only on the {side}: {_some([_told(o) for o in rows])}")
    settings: dict[tuple[str, Any, Any], None] = {}
    metrics: list[Compared] = []
    for a, b in (*pairs, *versions):
        unlike = _unlike(flattened(a.cell), flattened(b.cell))
        settings |= {(place, _plain(x), _plain(y)): None for place, x, y in unlike}
        settings |= {
            (f"provenance.{place}", _plain(x), _plain(y)): None
            for place, x, y in _unlike(flattened(a.provenance), flattened(b.provenance))
        }
        found = _compared(_told(a), a, b)
        metrics += [c for c in found if c.verdict != "identical"]
    same = len(pairs) + len(versions) - len({c.what for c in metrics})
    notes.append(f"{same} of {len(pairs) + len(versions)} rows measure exactly the same")
    return Diff(str(one.path), str(other.path), tuple(settings), tuple(metrics), (), tuple(notes))


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | type(None)) else json.dumps(value)


def _some(names: Sequence[str]) -> str:
    return "; ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _name(o: Outcome) -> str:
    return o.adversary or "task"


def _told(o: Outcome) -> str:
    return f"{o.adversary or 'training'} on {o.dataset}, {o.defense}, seed {o.seed} ({o.key})"


def _unversioned(o: Outcome) -> str:
    """The cell without versions of components and digests of data."""
    document = {k: v for k, v in flattened(o.cell).items() if not re.search(r"(^|\.)(version|digest)$", k)}
    return json.dumps([o.kind, document], sort_keys=True)


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    places = [*a, *(place for place in b if place not in a)]
    return [(place, a.get(place), b.get(place)) for place in places if a.get(place) != b.get(place)]


def _compared(what: str, a: Outcome, b: Outcome) -> list[Compared]:
    if a.status != "done" or b.status != "done":
        verdict = "identical" if (a.status, a.reason) == (b.status, b.reason) else f"{a.status} against {b.status}"
        return [Compared(what, "status", None, verdict)]
    found = []
    for metric, against in dict.fromkeys((s.metric, s.against) for s in (*a.scores, *b.scores)):
        one, other = (next((s for s in o.scores if (s.metric, s.against) == (metric, against)), None) for o in (a, b))
        name = f"{metric} against the {against}" if against else metric
        if one is None or other is None:
            found.append(Compared(what, name, None, f"only on the {'right' if one is None else 'left'}"))
        elif one.version != other.version:
            found.append(Compared(what, name, None, f"version {one.version} against {other.version}"))
        else:
            found.append(_tested(what, name, a, one, b, other))
    return found


def _tested(what: str, name: str, a: Outcome, one: Score, b: Outcome, other: Score) -> Compared:
    def measured(o: Outcome, score: Score, data: str) -> Measured:
        return Measured(score.metric, data, {0: Seed.of(score, o.about(score), o.key)})

    # Images with the same number are the same only if the data are; else the sides are two samples.
    data_a, data_b = (o.cell.get("run", {}).get("data", {}).get("digest", o.dataset) for o in (a, b))
    if data_a == data_b and not set(a.about(one)) & set(b.about(other)):
        data_b = f"{data_b} others"
    verdict = "identical" if (one.value, one.values) == (other.value, other.values) else ""
    found = difference([measured(a, one, data_a)], [measured(b, other, data_b)])
    if isinstance(found, str):
        return Compared(what, name, None, found)
    apart = found.varies and (found.low > 0 or found.high < 0)
    return Compared(what, name, found, verdict or ("differs" if apart else "not separable"))


def _guesses(store: Store, o: Outcome) -> np.ndarray | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = store.run_folder(o.run) / "attacks" / f"{o.key}.safetensors"
    try:
        found = load_file(path).get("inputs") if path.is_file() else None
    except (OSError, SafetensorError):
        return None
    return None if found is None else np.asarray(found)


def _pictures(what: str, a: np.ndarray | None, b: np.ndarray | None) -> Pictures | None:
    if a is None or b is None or a.shape != b.shape or not len(a):
        return None
    gap = np.abs(np.clip(a, 0, 1).astype(np.float64) - np.clip(b, 0, 1)).reshape(len(a), -1)
    each = gap.max(1)
    return Pictures(what, len(a), int((each == 0).sum()), float(gap.mean()), float(each.max()), int(each.argmax()))
