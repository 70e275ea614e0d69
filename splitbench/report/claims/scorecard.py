"""The scorecard as a table: each claim with its sentence, its verdict, and the numbers that decided it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from splitbench.report.claims.judge import ORDER, Judged, Scored
from splitbench.report.statistics.bootstrap import Difference
from splitbench.report.statistics.interval import figures
from splitbench.report.tables.sheet import Sheet, Shown


def summary(scored: Sequence[Scored]) -> str:
    """`3 hold, 2 fail, ...`"""
    found = Counter(s.verdict for s in scored)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in reversed(ORDER) if found[verdict])


def numbers(d: Difference) -> str:
    parts = [f"{figures(d.left)} against {figures(d.right)}"]
    if d.varies:
        apart = [("" if value < 0 else "+") + figures(value) for value in (d.value, d.low, d.high)]
        parts.append(f"difference {apart[0]}, 95 % {apart[1]} to {apart[2]}")
    if d.effect is not None:
        parts.append(f"effect {d.effect:+.2f}")
    seeds = "1 seed" if d.seeds == 1 else f"{d.seeds} seeds"
    return "; ".join([*parts, f"n {d.n}, {seeds}"])


def told(judged: Judged) -> str:
    """One question in full."""
    parts = [judged.about, numbers(judged.difference) if judged.difference else "", judged.why]
    return ": ".join(part for part in parts if part)


def counted(scored: Scored) -> str:
    """The verdict, and of how many questions it is true."""
    if len(scored.judged) == 1:
        return scored.verdict
    if len(scored.counts) == 1:
        return f"{scored.verdict} (all {len(scored.judged)})"
    return scored.verdict + " (" + ", ".join(f"{n} {v}" for v, n in scored.counts.items()) + ")"


def scorecard(scored: Sequence[Scored], notes: Sequence[str] = ()) -> Sheet:
    def record(s: Scored, j: Judged) -> dict[str, Any]:
        d = j.difference
        return {
            "recipe": s.recipe, "claim": s.claim.id, "section": s.claim.section, "says": s.claim.says,
            "claim_verdict": s.verdict, "question": j.about, "verdict": j.verdict, "why": j.why,
            "by_the_paper": j.paper, "left": d and d.left, "right": d and d.right, "difference": d and d.value,
            "low_95": d and d.low, "high_95": d and d.high, "effect": d and d.effect, "n": d and d.n,
            "seeds": d and d.seeds, "outcomes": list(j.keys),
        }  # fmt: skip

    scales = ", ".join(dict.fromkeys(s.scale for s in scored))
    return Sheet(
        "What the paper claims, judged on our rows",
        f"scale {scales} · {summary(scored)} · separable: paired bootstrap over samples and seeds, 95 %",
        ("table", "claim"),
        tuple((s.recipe, s.claim.id) for s in scored),
        (("the paper says",), ("verdict",), ("decided by",), ("by the paper's own values",)),
        tuple(
            (
                Shown(f"“{s.claim.says}” ({'§' if s.claim.section[0].isdigit() else ''}{s.claim.section})"),
                Shown(counted(s), bold=s.verdict in ("holds", "fails")),
                Shown(told(s.deciding)),
                Shown(s.paper or "–"),
            )
            for s in scored
        ),
        tuple(notes),
        tuple(record(s, j) for s in scored for j in s.judged),
        prose=True,
        about={"scale": scales, "verdicts": dict(Counter(s.verdict for s in scored))},
    )
