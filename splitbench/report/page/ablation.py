"""What a single number does: rows that differ in one numeric setting, joined to curves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splitbench.report.page import plot_axis
from splitbench.report.page.gather import Gathered, flat, prose
from splitbench.report.page.plot import Line, Mark, Plot, Section
from splitbench.report.page.verdicts import score
from splitbench.report.page.verdicts import utility as utility_of
from splitbench.report.statistics.interval import half_width
from splitbench.store.outcome import UTILITY, Outcome

LINES = 15  # of one plot
NAMED = 6  # lines with a label; the others have the hover and the table
_SEED = "run.seed"
_ALL = "run.samples.private"


@dataclass(frozen=True)
class Curve:
    """One attacker, or the task, along a setting."""

    path: str
    label: str
    utility: bool
    about: str  # what is the same all along, as a heading
    values: tuple[tuple[float, float, float | None], ...]  # setting, mean, half width
    base: float | None  # undefended
    data: Mapping[str, str]
    metric: str = UTILITY


def plots(rows: Gathered, most: int) -> Section:
    """One for leakage and one for the task, for each setting that varies and all that stays the same."""
    panels: dict[Panel, list[Curve]] = {}
    for curve in curves(rows):
        panels.setdefault((curve.path, curve.about, curve.utility, curve.metric), []).append(curve)
    # The task beside what leaks, and those with most to say first.
    order = sorted(panels, key=lambda k: (-_size(panels, k), k))
    made = tuple(_plot(f"ablation-{i}", panels[key]) for i, key in enumerate(order[:most]))
    return Section(made, len(order[most:]))


Panel = tuple[str, str, bool, str]  # path, what stays the same, whether it is utility, metric


def _size(panels: Mapping[Panel, Sequence[Curve]], key: Panel) -> int:
    both = [curve for other, several in panels.items() if other[:2] == key[:2] for curve in several]
    return max(len(c.values) for c in both) * 100 + len(both)


def curves(rows: Gathered) -> list[Curve]:
    done = [o for o in rows.outcomes if o.status == "done" and (o.kind == "train" or o.role != "floor")]
    runs = {o.run: _leaves({"run": o.cell.get("run", {})}) for o in {o.run: o for o in done}.values()}
    known = {rows.identity_of.get(o.key, ""): o for o in done}
    adversaries = {i: _leaves({k: v for k, v in o.cell.items() if k != "run"}) for i, o in known.items()}
    varying = [p for p in {**_varying(list(runs.values())), **_varying(list(adversaries.values()))} if p != _SEED]
    numeric = {*_several(runs.values()), *_several(adversaries.values())}
    quantities = [(i, path) for i, path in enumerate(varying) if path in numeric]
    groups: dict[tuple[str, Hashable], dict[float, list[Outcome]]] = {}
    for o in done:
        run, adversary = runs[o.run], adversaries[rows.identity_of.get(o.key, "")]
        values = tuple(run[p] if p in run else adversary.get(p) for p in varying)
        for i, path in quantities:
            x = values[i]
            if _number(x):
                rest = (o.kind, *values[:i], *values[i + 1 :])
                groups.setdefault((path, rest), {}).setdefault(float(x), []).append(o)  # type: ignore[arg-type]
    bases = {
        (rows.setting_of[o.run], o.seed): v
        for o in done
        if o.kind == "train" and o.defense == "none" and (v := utility_of(o)) is not None
    }
    found = [_curve(rows, path, along, bases) for (path, _), along in groups.items() if len(along) > 1]
    return [curve for curve in found if len(curve.values) > 1]


def _leaves(cell: Mapping[str, Any]) -> dict[str, Hashable]:
    """Settings by path. The defenses are named, so that omega is one thing whatever stands before it."""
    found: dict[str, Hashable] = {}
    for path, value in flat(cell):
        head = path.split(".")
        if head[:2] == ["run", "defenses"] and len(head) > 3:
            names = [d.get("name") if isinstance(d, Mapping) else d for d in cell["run"]["defenses"]]
            place = int(head[2])
            again = names[:place].count(names[place])
            head = ["run", "defense", f"{names[place]}{'+' * again}", *head[3:]]
        found[".".join(head)] = value
    if found.get(_ALL) == 0:  # means all that there are, which is no small number
        found[_ALL] = "all"
    return found


def _varying(leaves: Sequence[Mapping[str, Hashable]]) -> dict[str, None]:
    """Paths that are not the same everywhere."""
    seen: dict[str, set[Hashable]] = {}
    present: Counter[str] = Counter()
    for of in leaves:
        present.update(of.keys())
        for path, value in of.items():
            seen.setdefault(path, set()).add(value)
    return {path: None for path, several in seen.items() if len(several) > 1 or present[path] < len(leaves)}


def _several(leaves: Iterable[Mapping[str, Hashable]]) -> set[str]:
    """Paths with two numbers or more for the same attack, if they are about one. A version is no quantity."""
    seen: dict[tuple[Hashable, str], set[Hashable]] = {}
    for of in leaves:
        for path, value in of.items():
            if _number(value) and not path.endswith(".version"):
                seen.setdefault((of.get("attack.name"), path), set()).add(value)
    return {path for (_, path), several in seen.items() if len(several) > 1}


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _curve(
    rows: Gathered,
    path: str,
    along: Mapping[float, Sequence[Outcome]],
    undefended: Mapping[tuple[str, int], float],
) -> Curve:
    first = next(iter(along.values()))[0]
    utility = first.kind == "train"
    values = []
    for x in sorted(along):
        scores = [utility_of(o) if utility else score(o) for o in along[x]]
        known = np.array([v for v in scores if v is not None])
        if len(known) and len(known) == len(scores):
            values.append((x, float(known.mean()), half_width(known)))
    bases = [_base(rows, o, undefended) for group in along.values() for o in group] if ".defense." in path else []
    base = float(np.mean([b for b in bases if b is not None])) if any(b is not None for b in bases) else None
    defended = ".defense." in path
    setting = rows.settings[rows.setting_of[first.run]].name
    about = setting if defended or not path.startswith("run.") else f"{first.dataset} · {first.model} · {first.scale}"
    if not defended:
        name = first.defense.rpartition(" on ")[0] if path == "run.protected" else first.defense
        about += f" · {'undefended' if name == 'none' else name}"
    data = {"dataset": first.dataset} | ({} if utility else {"attack": first.attack})
    name = UTILITY if utility else first.adversary
    return Curve(path, name, utility, about, tuple(values), base, data, first.ranking)


def _base(rows: Gathered, outcome: Outcome, bases: Mapping[tuple[str, int], float]) -> float | None:
    """The same where nothing defends."""
    if outcome.kind == "attack":
        return score(rows.by_key.get(outcome.twin))
    return bases.get((rows.setting_of[outcome.run], outcome.seed))


def said(path: str) -> str:
    """`run.defense.seal.settings.omega` as a person says it: omega of seal."""
    *where, name = [p for p in path.split(".") if p not in ("run", "defense", "settings", "training", "threat")]
    if name == "protected":
        return "protected clients"
    if where == ["samples"]:
        return f"{name} samples"
    return f"{name} of {'the attack' if where == ['attack'] else ' '.join(where)}" if where else name


def _plot(key: str, found: Sequence[Curve]) -> Plot:
    curves = sorted(found, key=lambda c: -c.values[-1][1])[:LINES]
    first = curves[0]
    what = UTILITY if first.utility else f"leakage, {prose(first.metric)}"
    strongest = max(range(len(curves)), key=lambda i: max(v for _, v, _ in curves[i].values))
    lines = []
    for i, c in enumerate(curves):
        kind = "strong" if i == strongest or len(curves) == 1 else "plain"
        marks = tuple(
            Mark(x, v, f"{c.label}: {what} {v:.3f}{f' ±{h:.3f}' if h else ''} at {said(c.path)} {plot_axis.short(x)}",
                 kind=kind, y_half=h, data=c.data)
            for x, v, h in c.values
        )  # fmt: skip
        lines.append(Line(marks, c.label if i < NAMED and not c.utility else "", kind, c.data))
    across = plot_axis.through(said(first.path), [x for c in curves for x, _, _ in c.values])
    bases = [c.base for c in curves if c.base is not None]
    if bases:
        base = max(bases)
        ends = tuple(Mark(x, base, "") for x in (across.low, across.high))
        lines.append(Line(ends, "undefended", "rule"))
    heights = [v for c in curves for _, v, _ in c.values] + ([max(bases)] if bases else [])
    head = (said(first.path), *(c.label for c in curves))
    at = {c.label: {x: v for x, v, _ in c.values} for c in curves}
    rows = tuple(
        (plot_axis.short(x), *(f"{at[c.label][x]:.3f}" if x in at[c.label] else "–" for c in curves))
        for x in sorted({x for c in curves for x, _, _ in c.values})
    )
    told = "; ".join(f"{c.label} goes from {c.values[0][1]:.3f} to {c.values[-1][1]:.3f}" for c in curves[:NAMED])
    return Plot(
        key,
        f"{UTILITY.capitalize() if first.utility else 'Leakage'} along {said(first.path)}",
        first.about,
        first.data["dataset"],
        f"As {said(first.path)} goes from {plot_axis.short(first.values[0][0])} "
        f"to {plot_axis.short(first.values[-1][0])}: "
        f"{told}." + (f" Undefended: {max(bases):.3f}." if bases else ""),
        across,
        plot_axis.linear(what, heights, 0.12, (-1.0, 1.0), 0.1),
        (),
        tuple(lines),
        head,
        rows,
        f"{len(found) - LINES} more curves, below these at their ends, are not drawn." if len(found) > LINES else "",
    )
