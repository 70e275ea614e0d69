"""What knowing a defense is worth: the same attack at each rung of knowledge."""

from __future__ import annotations

import numpy as np

from splitbench.core.threat import KNOWLEDGE
from splitbench.report.page import plot_axis
from splitbench.report.page.gather import Gathered
from splitbench.report.page.plot import Line, Mark, Plot, Section, section
from splitbench.report.page.verdicts import Standing, score
from splitbench.report.statistics.ladder import falls
from splitbench.store.outcome import Outcome

NAMED = 6


def plots(rows: Gathered, standings: list[Standing], most: int) -> Section:
    fallen = falls(rows.outcomes)
    made = [_plot(f"ladder-{i}", standing, fallen) for i, standing in enumerate(standings)]
    return section([plot for plot in made if plot is not None], most)


def _plot(key: str, standing: Standing, fallen: dict[str, str]) -> Plot | None:
    """None if no attack was mounted at two rungs, on a defense that can be known."""
    if standing.verdict == "undefended":
        return None
    ladders: dict[str, dict[str, list[Outcome]]] = {}
    for faced in standing.attacks:
        if faced.seen.value is not None:
            ladders.setdefault(faced.attack, {})[faced.knowledge] = list(faced.outcomes)
    several = {name: rungs for name, rungs in ladders.items() if len(rungs) > 1}
    if not several:
        return None
    means = {
        name: [(i, float(np.mean([score(o) or 0.0 for o in rungs[r]]))) for i, r in enumerate(KNOWLEDGE) if r in rungs]
        for name, rungs in several.items()
    }
    order = sorted(means, key=lambda name: -means[name][-1][1])
    lines = []
    for place, name in enumerate(order):
        doubt = any(o.key in fallen for group in several[name].values() for o in group)
        kind = "strong" if place == 0 else "plain"
        data = {"attack": next(iter(several[name].values()))[0].attack}
        marks = tuple(
            Mark(i, v, f"{name}, knowledge {KNOWLEDGE[i]}: {standing.leak} {v:.3f}", kind=kind, data=data)
            for i, v in means[name]
        )
        lines.append(Line(marks, (name + (" †" if doubt else "")) if place < NAMED else "", kind, data))
    notes = dict.fromkeys(
        fallen[o.key] for rungs in several.values() for group in rungs.values() for o in group if o.key in fallen
    )
    told = "; ".join(
        f"{name}: " + ", ".join(f"{KNOWLEDGE[i]} {v:.3f}" for i, v in means[name]) for name in order[:NAMED]
    )
    return Plot(
        key,
        f"{standing.name}, by what the attack knows of it",
        standing.setting.name,
        standing.setting.dataset,
        f"{standing.leak} recovered, {told}.",
        plot_axis.names("knowledge of the defense", KNOWLEDGE),
        plot_axis.linear(
            f"leakage, {standing.leak}", [v for values in means.values() for _, v in values], 0.15, (-1.0, 1.0), 0.1
        ),
        (),
        tuple(lines),
        ("attack", *KNOWLEDGE),
        tuple(
            (name, *(f"{dict(means[name])[i]:.3f}" if i in dict(means[name]) else "–" for i in range(len(KNOWLEDGE))))
            for name in order
        ),
        " ".join(f"† {note}." for note in notes),
    )
