"""The answer, in a sentence or two made from the rows: which defenses hold, at what price, and what nobody tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from splitbench.report.page.gather import METRIC, Gathered
from splitbench.report.page.standing import UTILITY, Standing

NAMED = 3  # in a sentence
RULE = (
    "A defense holds if every calibrated attack on it recovers at most half of what the same attack recovers undefended, "
    f"counted in {METRIC} beyond the mean image. It holds against the attacks that were mounted, and says nothing of others."
)


@dataclass(frozen=True)
class Answer:
    lead: str
    price: str
    caveats: tuple[str, ...]


def answer(rows: Gathered, standings: Sequence[Standing], unplanned: int = 0) -> Answer:
    defended = [s for s in standings if s.verdict != "undefended"]
    holds = [s for s in defended if s.verdict == "holds"]
    leaks = [s for s in defended if s.verdict == "leaks"]
    return Answer(
        _lead(standings, defended, holds, leaks), _price(standings, holds, leaks), _caveats(rows, defended, unplanned)
    )


def _lead(
    every: Sequence[Standing], defended: Sequence[Standing], holds: Sequence[Standing], leaks: Sequence[Standing]
) -> str:
    judged = len(holds) + len(leaks)
    if not defended:
        open_ = max((s for s in every if s.leakage), key=lambda s: s.leakage.value if s.leakage else 0, default=None)
        if open_ is None or open_.leakage is None:
            return "Nothing is defended here and nothing was attacked, so there is nothing to answer yet."
        return (
            f"No defense was tried here. Undefended, the attacks together recover {METRIC} {open_.leakage.value:.2f} on "
            f"{open_.setting.dataset}{_among(every)}."
        )
    if not judged:
        return (
            f"No verdict yet: none of the {_count(defended)} was faced by an attack that is known to work undefended."
        )
    if not leaks:
        return f"{_names(holds)} {'holds' if len(_set(holds)) == 1 else 'hold'} against every calibrated attack mounted here."
    worst = max(leaks, key=lambda s: _recovered(s))
    if not holds:
        which = "The one defense tried does not hold" if len(_set(leaks)) == 1 else f"None of the {_count(leaks)} holds"
        return f"{which}: through {worst.defense} on {worst.setting.dataset}, {_said(worst)}."
    return f"{_names(holds)} {'holds' if len(_set(holds)) == 1 else 'hold'}; {_names(leaks)} {'leaks' if len(_set(leaks)) == 1 else 'leak'}."


def _price(every: Sequence[Standing], holds: Sequence[Standing], leaks: Sequence[Standing]) -> str:
    chosen = min(holds or leaks, key=_recovered, default=None)
    if holds:
        priced = [s for s in holds if _loss(every, s) is not None]
        chosen = min(priced, key=lambda s: _loss(every, s) or 0.0, default=chosen)
    if chosen is None:
        return ""
    loss, base = _loss(every, chosen), _base(every, chosen)
    parts = []
    if loss is not None and chosen.utility and base and base.utility:
        how = "costs" if loss > 0 else "gains"
        parts.append(
            f"{how} {abs(100 * loss):.1f} points of {UTILITY} ({chosen.utility.text()} against {base.utility.text()} undefended)"
        )
    if base and chosen.costs.get("bytes_up") and base.costs.get("bytes_up"):
        ratio = chosen.costs["bytes_up"] / base.costs["bytes_up"]
        parts.append("sends as many bytes" if abs(ratio - 1) < 0.005 else f"sends {ratio:.2f} times the bytes")
    if not parts:
        return ""
    head = (
        f"The cheapest that holds, {chosen.defense} on {chosen.setting.dataset},"
        if holds
        else f"The one that hides most, {chosen.defense} on {chosen.setting.dataset},"
    )
    tail = f"; {_said(chosen)}" if holds and chosen.strongest else ""
    return f"{head} {' and '.join(parts)}{tail}."


def _caveats(rows: Gathered, defended: Sequence[Standing], unplanned: int) -> tuple[str, ...]:
    found = []
    seeds = Counter(len({o.seed for o in s.runs}) for s in defended)
    if seeds and set(seeds) <= {0, 1}:
        found.append("One seed each: nothing here says how much another training would differ.")
    elif seeds.get(1):
        found.append(f"{seeds[1]} of {len(defended)} defenses were trained with one seed only.")
    blind = [s for s in defended if s.verdict == "holds" and not s.adaptive]
    if blind:
        found.append(f"No calibrated attack on {_names(blind)} knew of the defense: an adaptive one may do better.")
    informed = [
        s
        for s in defended
        if s.verdict == "holds" and s.bound is not None and s.floor is not None and s.bound > 2 * s.floor
    ]
    if informed:
        most = max(informed, key=lambda s: s.bound or 0.0)
        found.append(
            f"A decoder shown true pairs still recovers {METRIC} {most.bound:.2f} through {most.defense}: it confuses more than it hides."
        )
    doubts = Counter(f.name for s in defended for f in s.attacks if f.verdict == "uncalibrated")
    if doubts:
        named = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in doubts.most_common(NAMED))
        more = f" and {len(doubts) - NAMED} more" if len(doubts) > NAMED else ""
        found.append(f"Uncalibrated, so not counted: {named}{more}. They fail or were not run where nothing defends.")
    for status in ("skipped", "failed"):
        those = [o for o in rows.outcomes if o.status == status]
        if those:
            [(reason, _)] = Counter(o.reason for o in those).most_common(1)
            found.append(f"{len(those)} of {len(rows.outcomes)} rows {status}; most often: {reason}.")
    if unplanned:
        found.append(f"{unplanned} planned cells are not run yet.")
    unattacked = [s for s in defended if s.verdict == "not attacked"]
    if unattacked:
        found.append(f"Not attacked: {_names(unattacked)}.")
    scales = sorted({s.scale for s in rows.settings.values()})
    if scales != ["paper"]:
        found.append(
            f"Scale {' and '.join(scales)}, not the papers' own settings."
            if "paper" not in scales
            else f"Several scales, never mixed: {', '.join(scales)}."
        )
    return tuple(found)


def _recovered(standing: Standing) -> float:
    found = standing.strongest
    return found.seen.value if found and found.seen.value is not None else 0.0


def _said(standing: Standing) -> str:
    found = standing.strongest
    if found is None or found.seen.value is None:
        return "nothing was recovered"
    beside = f"undefended {found.seen.undefended:.2f}" if found.seen.undefended is not None else ""
    floor = f"the mean image {found.seen.floor:.2f}" if found.seen.floor is not None else ""
    said = ", ".join(part for part in (beside, floor) if part)
    return f"{found.name} recovers {METRIC} {found.seen.value:.2f}{f' ({said})' if said else ''}"


def _base(every: Sequence[Standing], standing: Standing) -> Standing | None:
    return next((s for s in every if s.setting == standing.setting and s.verdict == "undefended"), None)


def _loss(every: Sequence[Standing], standing: Standing) -> float | None:
    base = _base(every, standing)
    if base is None or base.utility is None or standing.utility is None:
        return None
    return base.utility.value - standing.utility.value


def _set(standings: Sequence[Standing]) -> list[str]:
    return list(dict.fromkeys(s.defense for s in standings))


def _count(standings: Sequence[Standing]) -> str:
    count = len(_set(standings))
    return f"{count} defenses tried" if count != 1 else "one defense tried"


def _among(standings: Sequence[Standing]) -> str:
    others = [n for n in dict.fromkeys(s.setting.dataset for s in standings)]
    return f", the most open of {len(others)} data sets" if len(others) > 1 else ""


def _names(standings: Sequence[Standing]) -> str:
    """Each with where it is so, unless it is so everywhere."""
    where: dict[str, list[str]] = {}
    for s in standings:
        places = where.setdefault(s.defense, [])
        if s.setting.dataset not in places:
            places.append(s.setting.dataset)
    said = [f"{name} (on {', '.join(places)})" for name, places in where.items()]
    if len(said) > NAMED:
        return ", ".join(said[:NAMED]) + f" and {len(said) - NAMED} more"
    return " and ".join(said) if len(said) < 3 else ", ".join(said[:-1]) + f" and {said[-1]}"
