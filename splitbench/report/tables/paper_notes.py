"""What is said below and above a paper's table: every gap and doubt, and what the numbers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from splitbench.plan.axes import COSTS
from splitbench.plan.paper import Paper
from splitbench.report.statistics.interval import over
from splitbench.store.outcome import Outcome

if TYPE_CHECKING:
    from splitbench.report.tables.paper_table import Side, Value

NOT_RUN, NOT_PLANNED = "not run", "–"
GAPS = {NOT_RUN: NOT_RUN, NOT_PLANNED: "– not planned at this scale"}
TIE = "not separable from the best (paired bootstrap over images and seeds, 95 %)"


def metrics_of(paper: Paper) -> list[str]:
    return list(paper.names.get("metric", {})) or [paper.where["metric"]]


def notes_of(values: Collection[Value], paper: Paper) -> list[str]:
    """Every reason once, with the places it is about."""
    about: dict[str, list[str]] = {}
    ties = False
    for v in values:
        place = " ".join(paper.names.get(a, {}).get(v.at[a], v.at[a]) for a in (*paper.rows, *paper.columns))
        ours = v.ours
        ties |= v.mark == "tie"
        reasons = [
            (("? " if ours.doubt else "") + (ours.doubt or ours.note)) if ours else "",
            "† " * bool(v.ladder) + v.ladder,
        ]
        for reason in reasons:
            if reason and reason not in (NOT_RUN, NOT_PLANNED):
                about.setdefault(reason, []).append(place)
    gaps = Counter(v.ours.note for v in values if v.ours is not None)
    told = [f"{reason} ({_some(places)})" for reason, places in about.items()]
    return [
        *([f"= {TIE}"] if ties else []),
        *(f"{said}: {gaps[gap]} of {len(values)} values" for gap, said in GAPS.items() if gaps[gap]),
        *told,
    ]


def _some(places: Sequence[str]) -> str:
    return ", ".join(places[:4]) + (f" and {len(places) - 4} more" if len(places) > 4 else "")


def caption_of(paper: Paper, shown: Sequence[Value], scale: str, side: Side, own: Sequence[Outcome]) -> str:
    kind = "Figure" if paper.layout == "curve" else "Table"
    named_so = f"{kind} {paper.table}: {paper.caption}".rstrip(": ") if paper.table else paper.caption
    about = ", ".join(part for part in (named_so, "all values in percentage" if paper.percent is True else "") if part)
    if side == "paper":
        return f"{about} · the paper's values"
    named = metrics_of(paper)
    versions = sorted({f"{s.metric}@{s.version}" for o in own for s in o.scores if s.metric in named})
    versions += [COSTS.get(v.at["metric"], v.at["metric"]) for v in shown if v.ours is not None and v.ours.cost]
    unit = next((o.unit for o in own if o.kind == "attack"), "sample")
    halves = [v for v in shown if v.half is not None and v.ours is not None]
    interval = ""
    if halves:
        interval = f" ± 95 % over {over(((len(v.ours.seeds or ()), v.ours.n) for v in halves if v.ours), unit)}"
    best = "the attack that recovers most" if paper.best.get("along") == "attack" else "the best"
    bold = f" · bold: {best}" if any(v.mark == "best" for v in shown) else ""
    theirs = "" if side == "ours" else " · in brackets the paper's"
    mixed = " · of mixed messages, against each member"
    mixed = mixed if any(v.ours is not None and v.ours.against == "member" for v in shown) else ""
    return f"{about} · scale {scale} · {', '.join(dict.fromkeys(versions))} · ours{interval}{theirs}{bold}{mixed}"
