"""What hiding costs: leakage against utility and against each cost, with the front of what nothing beats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from splitbench.report.page import axis
from splitbench.report.page.gather import METRIC
from splitbench.report.page.plot import Line, Mark, Plot
from splitbench.report.page.standing import COSTS, UTILITY, Standing

LABELS = 14  # of one plot; more would be a tangle


def front(points: Sequence[tuple[float, float]], more_is_better: bool) -> list[int]:
    """Which points no other beats: x in the direction given, y downwards. In the order of x."""
    order = sorted(range(len(points)), key=lambda i: (-points[i][0] if more_is_better else points[i][0], points[i][1]))
    best, found = float("inf"), []
    for i in order:
        if points[i][1] < best or (found and points[i] == points[found[-1]]):
            best = points[i][1]
            found.append(i)
    return sorted(found, key=lambda i: points[i])


def plots(standings: Iterable[Standing]) -> list[tuple[str, list[Plot]]]:
    """For each setting that has a defense to compare: its plots."""
    found = []
    for setting, group in groupby(standings, key=lambda s: s.setting):
        those = [s for s in group if s.leakage is not None]
        if len(those) < 2:
            continue
        made = [_plot(those, UTILITY), *(_plot(those, cost) for cost in COSTS)]
        found.append((setting.key, [plot for plot in made if plot is not None]))
    return found


def _plot(standings: Sequence[Standing], what: str) -> Plot | None:
    utility = what == UTILITY
    values = [s.utility.value if utility and s.utility else s.costs.get(what) for s in standings]
    those = [(s, v) for s, v in zip(standings, values, strict=True) if v is not None]
    if len(those) < 2 or (not utility and len({v for _, v in those}) == 1):
        return None  # a cost that all share is told in words
    points = [(v, s.leakage.value) for s, v in those if s.leakage is not None]
    on = set(front(points, more_is_better=utility))
    label = f"{UTILITY} (more is better)" if utility else f"{COSTS[what]} (less is better)"
    marks = []
    for i, (s, v) in enumerate(those):
        assert s.leakage is not None
        kind = "base" if s.verdict == "undefended" else "doubt" if s.verdict == "uncalibrated" else "plain"
        shown = f"{UTILITY} {s.utility.text()}" if utility and s.utility else f"{axis.short(v)} {what}"
        tip = f"{s.defense}: {shown}, worst case {METRIC} {s.leakage.text()}, {s.verdict}"
        half = s.utility.half if utility and s.utility else None
        name = "undefended" if kind == "base" else s.defense
        data = {} if kind == "base" else {"defense": s.defense}
        named = name if i in on or len(those) <= LABELS else ""
        marks.append(Mark(v, s.leakage.value, tip, named, kind, half, s.leakage.half, data))
    corners = _steps([points[i] for i in sorted(on, key=lambda i: points[i])], utility)
    best = ", ".join("undefended" if those[i][0].verdict == "undefended" else those[i][0].defense for i in sorted(on))
    name = UTILITY if utility else COSTS[what]
    leak = [p[1] for p in points]
    key = f"pareto-{what}-{standings[0].setting.key}"
    return Plot(
        key,
        f"Leakage against {name}: {standings[0].setting.name}",
        f"{len(those)} defenses, undefended included. {METRIC} of the worst case runs from {min(leak):.3f} to "
        f"{max(leak):.3f}. On the front, where nothing is better in both: {best}.",
        axis.linear(label, [p[0] for p in points], 0.12, (0.0, 1.0) if utility else None),
        axis.linear(f"leakage, {METRIC} (less is better)", [*leak, 0.0], 0.06, (-1.0, 1.0)),
        tuple(marks),
        (Line(tuple(Mark(x, y, "") for x, y in corners), kind="front"),),
        ("defense", name, f"{METRIC}, worst case", "verdict", "on the front"),
        tuple(
            (s.defense, s.utility.text() if utility and s.utility else f"{v:,.0f}", s.leakage.text(), s.verdict,
             "yes" if i in on else "")
            for i, (s, v) in enumerate(those) if s.leakage is not None
        ),
    )  # fmt: skip


def _steps(points: Sequence[tuple[float, float]], more_is_better: bool) -> list[tuple[float, float]]:
    """The staircase between the points of a front: what lies beyond it is beaten by one of them."""
    found: list[tuple[float, float]] = []
    for one, other in pairwise(points):
        found += [one, (one[0], other[1]) if more_is_better else (other[0], one[1])]
    return [*found, *points[-1:]]


def shared_costs(standings: Iterable[Standing]) -> list[str]:
    """Costs that are the same for every defense of a setting, as sentences: no plot would show anything."""
    said = []
    for setting, group in groupby(standings, key=lambda s: s.setting):
        those = [s for s in group if s.leakage is not None]
        for cost, name in COSTS.items():
            values = {s.costs[cost] for s in those if cost in s.costs}
            if len(those) > 1 and len(values) == 1:
                said.append(f"{setting.name}: {axis.short(values.pop())} {name}, whatever the defense.")
    return said
