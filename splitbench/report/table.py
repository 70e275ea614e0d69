"""Tables from the store: one value a cell, with its interval, and nothing left out in silence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from splitbench.bench.outcome import Outcome
from splitbench.bench.store import Store
from splitbench.core.errors import SplitbenchError, nearest

UTILITY = ("accuracy", "mcc")
AXES = ("defense", "attack", "dataset", "model", "cut", "topology", "clients", "seed")
GROUP = ("scale", "dataset", "model", "cut", "topology", "clients")


@dataclass(frozen=True)
class Entry:
    """A cell of a table. No interval where there is a single value."""

    mean: float | None
    half: float | None = None  # half the width of the 95 % interval
    n: int = 0
    seeds: int = 0
    note: str = ""  # why there is no value
    doubt: str = ""  # why the value says nothing about the defense
    keys: tuple[str, ...] = ()  # the outcomes it is made of

    def text(self, digits: int = 3) -> str:
        if self.mean is None:
            return self.note.split(":")[0] if self.note else "–"
        value = f"{self.mean:.{digits}f}" + ("?" if self.doubt else "")
        return value if self.half is None else f"{value} ±{self.half:.{digits}f}"


@dataclass(frozen=True)
class Table:
    title: str
    caption: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], Entry]
    notes: tuple[str, ...] = ()

    def entry(self, row: str, column: str) -> Entry:
        return self.entries.get((row, column), Entry(None))


def table(
    recipe: str | None = None,
    *,
    store: Path | str | None = None,
    scale: str = "desk",
    rows: str = "",
    columns: str = "",
    metric: str = "",
    where: Mapping[str, str] | None = None,
) -> list[Table]:
    """The tables of a recipe, or of everything in the store: one for each data set, model, cut, topology and scale."""
    place = Store(store)
    outcomes, damaged = place.outcomes()
    everything = outcomes
    planned: list[str] | None = None
    title = ""
    if recipe is not None:
        plan = place.plan(recipe, scale)
        if plan is None:
            raise SplitbenchError(_not_run(place, recipe, scale))
        planned, title = plan["cells"], plan["title"]
        rows, columns = rows or plan["table"].get("rows", ""), columns or plan["table"].get("columns", "")
        metric = metric or plan["table"].get("metric", "")
        order = {key: i for i, key in enumerate(planned)}
        outcomes = sorted((o for o in outcomes if o.key in order), key=lambda o: order[o.key])
    rows, columns, metric = rows or "defense", columns or "attack", metric or "ssim"
    for axis in (rows, columns, *(where or {})):
        if axis not in (*AXES, "scale"):
            raise SplitbenchError(f"a table has no '{axis}' to go by{nearest(axis, AXES)}")
    chosen = [o for o in outcomes if all(str(getattr(o, k)) == v for k, v in (where or {}).items())]
    if not chosen:
        raise SplitbenchError(f"nothing to show in {place.path}; `splitbench train` or `splitbench run` makes results")
    notes = [f"{d.path.name} cannot be read: {d.reason}" for d in damaged]
    if planned is not None and len(outcomes) < len(planned):
        notes.append(f"{len(planned) - len(outcomes)} of {len(planned)} cells are not run yet")
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    free = [axis for axis in GROUP if axis not in (rows, columns)]
    for outcome in chosen:
        groups.setdefault(tuple(str(getattr(outcome, axis)) for axis in free), []).append(outcome)
    return [
        _make(title, dict(zip(free, g, strict=True)), group, everything, rows, columns, metric, notes)
        for g, group in groups.items()
    ]


def _not_run(store: Store, recipe: str, scale: str) -> str:
    plans = store.plans()
    scales = [s for name, s in plans if name == recipe]
    if scales:
        return f"'{recipe}' was run here at scale {', '.join(scales)}, not {scale}; choose it with --scale"
    return f"no results of '{recipe}' in {store.path}; `splitbench run {recipe}` makes them" + (
        nearest(recipe, {name for name, _ in plans}) if plans else ""
    )


def _make(
    title: str,
    group: Mapping[str, str],
    outcomes: Sequence[Outcome],
    everything: Sequence[Outcome],
    rows: str,
    columns: str,
    metric: str,
    notes: Sequence[str],
) -> Table:
    utility = columns == "attack"
    row_names = list(dict.fromkeys(str(getattr(o, rows)) for o in outcomes))
    found: dict[tuple[str, str], list[Outcome]] = {}
    column_names: list[str] = []
    for outcome in outcomes:
        row = str(getattr(outcome, rows))
        if outcome.kind == "train":
            if utility:
                found.setdefault((row, UTILITY[0]), []).append(outcome)
            continue
        column = str(getattr(outcome, columns))
        found.setdefault((row, column), []).append(outcome)
        if column not in column_names:
            column_names.append(column)
    first = [UTILITY[0]] if any(column == UTILITY[0] for _, column in found) else []
    twins = {o.key: o for o in everything}
    entries = {
        (row, column): _entry(group_of, UTILITY[0] if column in first else metric, twins)
        for (row, column), group_of in found.items()
    }
    reasons = [f"{row} × {column}: {e.note or e.doubt}" for (row, column), e in entries.items() if e.note or e.doubt]
    versions = sorted({f"{s.metric}@{s.version}" for o in outcomes for s in o.scores if s.metric == metric})
    place = " · ".join(_said(axis, value) for axis, value in group.items() if axis != "scale")
    interval = _interval_caption(entries.values())
    caption = f"{place} · scale {group.get('scale', '?')} · {', '.join(versions) or metric}{interval}"
    return Table(
        title, caption, rows, tuple(row_names), (*first, *column_names), entries, (*notes, *dict.fromkeys(reasons))
    )


def _said(axis: str, value: str) -> str:
    if axis != "clients":
        return value
    return "1 client" if value == "1" else f"{value} clients"


def _interval_caption(entries: object) -> str:
    shown = [e for e in entries if e.half is not None]  # type: ignore[attr-defined]
    if not shown:
        return ""
    over = f"{shown[0].seeds} seeds" if shown[0].seeds > 1 else f"{max(e.n for e in shown)} images, one seed"
    return f" · ± 95 % over {over}"


def _doubt(outcome: Outcome, twins: Mapping[str, Outcome]) -> str:
    """An attack that fails where nothing defends proves nothing about a defense."""
    twin = twins.get(outcome.twin)
    score = twin.score("ssim") if twin is not None and twin.status == "done" else None
    if not outcome.bar or (score is not None and score.value >= outcome.bar):
        return ""
    reached = "was not run" if score is None else f"reaches an SSIM of {score.value:.3f}"
    return f"uncalibrated: undefended, {outcome.attack} {reached}; its bar is {outcome.bar:g}"


def _entry(outcomes: Sequence[Outcome], metric: str, twins: Mapping[str, Outcome]) -> Entry:
    keys = tuple(o.key for o in outcomes)
    missing = [o for o in outcomes if o.status != "done"]
    if missing:
        # One seed that failed breaks the mean: it must not become the mean of the survivors.
        return Entry(None, note=f"{missing[0].status}: {missing[0].reason}", keys=keys)
    scores = [o.score(metric) for o in outcomes]
    present = [s for s in scores if s is not None]
    if len(present) < len(scores):
        return Entry(None, note=f"unscored: no {metric} for {len(scores) - len(present)} of {len(scores)}", keys=keys)
    means = np.array([s.value for s in present])
    values = means if len(present) > 1 else np.array(present[0].values)
    n = sum(s.n for s in present)
    doubt = next((d for o in outcomes if (d := _doubt(o, twins))), "")
    return Entry(float(means.mean()), _half(values), n, len(present), doubt=doubt, keys=keys)


def _half(values: np.ndarray) -> float | None:
    """Half the 95 % t interval of a mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / math.sqrt(len(values)))
