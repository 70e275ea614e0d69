"""What hiding costs: leakage against utility and against each cost, with the front of what nothing beats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from splitbench.report.page import plot_axis
from splitbench.report.page.plot import Line, Mark, Plot, Section, section
from splitbench.report.page.verdicts import COSTS, Cost, Standing
from splitbench.store.outcome import UTILITY

LABELS = 14  # of one plot; more would be a tangle


def front(points: Sequence[tuple[float, float]], more_is_better: bool) -> list[int]:
    """Which points no other beats: x in the direction given, y downwards. In the order of x."""
    order = sorted(range(len(points)), key=lambda i: (-points[i][0] if more_is_better else points[i][0], points[i][1]))
    best = float("inf")
    found: list[int] = []
    for i in order:
        if points[i][1] < best or (found and points[i] == points[found[-1]]):
            best = points[i][1]
            found.append(i)
    return sorted(found, key=lambda i: points[i])


def plots(standings: Iterable[Standing], most: int) -> Section:
    """For each setting that has a defense to compare: its plots."""
    found: list[Plot | None] = []
    for _, group in groupby(standings, key=lambda s: s.group):
        those = [s for s in group if s.leakage is not None]
        found += [_plot(those, cost) for cost in (None, *COSTS)] if len(those) > 1 else []
    return section([plot for plot in found if plot is not None], most)


def _plot(standings: Sequence[Standing], cost: Cost | None) -> Plot | None:
    """Against a cost, or against utility. None where all share the cost, which is then said in words."""
    those, points, texts = [], [], []
    for s in standings:
        x = s.costs.get(cost.key) if cost else s.utility.value if s.utility else None
        if x is not None and s.leakage is not None:
            those.append(s)
            points.append((x, s.leakage.value))
            texts.append(cost.text(x) if cost else s.utility.text() if s.utility else "")
    if len(those) < 2 or (cost and len({x for x, _ in points}) == 1):
        return None
    what = cost.column if cost else UTILITY
    leak_word, sign = those[0].leak, those[0].sign
    useless = any(s.useless for s in those) and not cost
    # What no working attack has faced leaks little on paper only: it beats nothing.
    meant = [i for i, s in enumerate(those) if s.verdict != "uncalibrated"]
    on = [meant[i] for i in front([(points[i][0], sign * points[i][1]) for i in meant], more_is_better=not cost)]
    names = ["undefended" if s.verdict == "undefended" else s.defense for s in those]
    marks = []
    for i, s in enumerate(those):
        assert s.leakage is not None
        kind = "base" if s.verdict == "undefended" else "doubt" if s.verdict == "uncalibrated" else "plain"
        tip = f"{names[i]}: {what} {texts[i]}, worst case {leak_word} {s.leakage.text()}"
        tip += "" if kind == "base" else f", {s.verdict}"
        half = s.utility.half if s.utility and not cost else None
        data = {} if kind == "base" else {"defense": s.defense}
        label = names[i] if i in on or len(those) <= LABELS else ""
        marks.append(Mark(*points[i], tip, label, kind, half, s.leakage.half, data))
    across = plot_axis.linear(
        f"{cost.phrase} (less is better)" if cost else f"{UTILITY} (more is better)",
        [x for x, _ in points],
        0.12,
        None if cost else (0.0, 1.0),
    )
    floors = [s.floor for s in those if s.floor is not None]
    ends = [Mark(x, max(floors), "") for x in (across.low, across.high)] if floors else []
    corners = _steps([points[i] for i in on], not cost)
    leak = [y for _, y in points]
    best = ", ".join(names[i] for i in on) or "nothing"
    return Plot(
        f"pareto-{what.replace(' ', '-')}-{'-'.join(filter(None, standings[0].group))}",
        f"Leakage against {'what is ' if what == 'sent' else ''}{what}",
        standings[0].heading,
        standings[0].setting.dataset,
        f"{len(those)} defenses, undefended included. {leak_word} of the worst case runs from {min(leak):.3f} to "
        f"{max(leak):.3f}. On the front, where nothing is better in both: {best}.",
        across,
        plot_axis.linear(
            f"leakage, {leak_word} ({'less' if sign > 0 else 'more'} is better)", [*leak, 0.0], 0.06, (-1.0, 1.0)
        ),
        tuple(marks),
        (Line(tuple(Mark(x, y, "") for x, y in corners), kind="front"), Line(tuple(ends), "blind guess", "rule")),
        ("defense", what, f"{leak_word}, worst case", "verdict", "on the front"),
        tuple(
            (names[i], texts[i], s.leakage.text(), s.verdict, "yes" if i in on else "")
            for i, s in enumerate(those)
            if s.leakage is not None
        ),
        "The undefended network did not learn its task well enough: its utility says nothing." if useless else "",
    )


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
        for cost in COSTS if those else ():
            values = {s.costs[cost.key] for s in those if cost.key in s.costs}
            if len(those) > 1 and len(values) == 1:
                said.append(f"{setting.name}: {cost.text(values.pop())} {cost.phrase}, whatever the defense.")
    return said
