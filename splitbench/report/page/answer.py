"""The answer, in a sentence or two made from the rows: which defenses hold, at what price, and what nobody tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from splitbench.report.page.gather import Gathered
from splitbench.report.page.verdicts import Standing
from splitbench.store.outcome import UTILITY

NAMED = 3  # in a sentence
RULE = (
    "A defense holds if every calibrated attack on it recovers at most half of what the same attack recovers "
    "undefended, counted beyond the best blind guess in the metric that ranks attacks of that goal. It holds against "
    "the attacks that were mounted; of others it says nothing."
)
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Answer:
    lead: str
    price: str
    caveats: tuple[str, ...]


def answer(rows: Gathered, standings: Sequence[Standing], not_run: int = 0) -> Answer:
    defended = [s for s in standings if s.verdict != "undefended"]
    caveats = [*_useless(standings), *_caveats(rows, defended, not_run)]
    return Answer(_lead(standings, defended), _price(standings, defended), tuple(caveats))


def _useless(every: Sequence[Standing]) -> list[str]:
    """Of networks that never learned their task, once for each data set."""
    found = {s.setting.dataset: s.useless.removeprefix("uncalibrated: ") for s in every if s.useless}
    return [f"What a defense costs on {dataset} is inconclusive: {why}." for dataset, why in found.items()]


def _lead(every: Sequence[Standing], defended: Sequence[Standing]) -> str:
    holds, leaks = _with(defended, "holds"), _with(defended, "leaks")
    where = _alone(every)
    begin, apart = (f"On {where}, ", False) if where else ("", True)
    if not defended:
        return _undefended(every)
    if not holds and not leaks:
        count = len({s.defense for s in defended})
        none = "the defense tried was not" if count == 1 else f"none of the {_number(count)} defenses tried was"
        return f"No verdict yet: {none} faced by an attack that is known to work where nothing defends."
    if not leaks:
        return f"{begin}{_names(holds, apart)} {_verb(holds, 'hold')} against every calibrated attack mounted here."
    if holds:
        held, leaked = _names(holds, apart), _names(leaks, apart)
        return f"{begin}{held} {_verb(holds, 'hold')}; {leaked} {_verb(leaks, 'leak')}."
    worst = max(leaks, key=_recovered)
    count = len({s.defense for s in leaks})
    none = "The defense tried does not hold" if count == 1 else f"None of the {_number(count)} defenses tried holds"
    return f"{none}: through {_name(worst, every)}, {_said(worst)}."


def _undefended(every: Sequence[Standing]) -> str:
    attacked = [(s.sign * s.leakage.value, s) for s in every if s.leakage is not None]
    if not attacked:
        return "Nothing is defended here and nothing was attacked, so there is nothing to answer yet."
    _, most = max((a for a in attacked if a[1].goal == attacked[0][1].goal), key=lambda a: a[0])
    assert most.leakage is not None
    value, dataset = most.leakage.value, most.setting.dataset
    sets = len({s.setting.dataset for s in every})
    among = f", the most open of {_number(sets)} data sets" if sets > 1 else ""
    return (
        f"No defense was tried here. Undefended, the attacks together get {most.leak} {value:.2f} on {dataset}{among}."
    )


def _price(every: Sequence[Standing], defended: Sequence[Standing]) -> str:
    """Of the cheapest that holds; where none does, of the one that hides most."""
    holds, leaks = _with(defended, "holds"), _with(defended, "leaks")
    bases = {s.group: s for s in every if s.verdict == "undefended"}
    priced = [(loss, s) for s in holds or leaks if (loss := _loss(s, bases.get(s.group))) is not None]
    if not priced:
        return ""
    loss, chosen = min(priced, key=lambda p: p[0] if holds else _recovered(p[1]))
    base = bases[chosen.group]
    assert chosen.utility is not None
    assert base.utility is not None
    cost = f"{100 * loss:.1f} points of {UTILITY}" if loss >= 0.0005 else f"no {UTILITY}"
    said = [f"costs {cost} ({chosen.utility.text()}, undefended {base.utility.text()})"]
    if chosen.costs.get("bytes_up") and base.costs.get("bytes_up"):
        ratio = chosen.costs["bytes_up"] / base.costs["bytes_up"]
        said.append("sends as many bytes" if abs(ratio - 1) < 0.005 else f"sends {ratio:.2f} times the bytes")
    which = "The cheapest that holds" if holds else "The one that hides most"
    alone = len(holds) + len(leaks) == 1
    head = "It" if alone else f"{which}, {_name(chosen, every)},"
    tail = f"; {_said(chosen)}" if holds or not alone else ""
    return f"{head} {' and '.join(said)}{tail}."


def _caveats(rows: Gathered, defended: Sequence[Standing], not_run: int) -> list[str]:
    found = []
    seeds = Counter(len({o.seed for o in s.runs}) for s in defended)
    if seeds and max(seeds) <= 1:
        found.append("One seed each: nothing here says how much another training would differ.")
    elif seeds.get(1):
        found.append(f"{seeds[1]} of {len(defended)} defenses were trained with one seed only.")
    held = _with(defended, "holds")
    blind = [s for s in held if not s.adaptive]
    if blind:
        found.append(f"No calibrated attack on {_names(blind)} knew of the defense: an adaptive one may do better.")
    seen = [(s.bound, s) for s in held if s.bound is not None and s.sign * s.bound > 2 * s.sign * (s.floor or 0.0)]
    if seen:
        bound, most = max(seen, key=lambda b: b[0])
        found.append(
            f"A decoder shown true pairs recovers {most.leak} {bound:.2f} through {most.name} on "
            f"{most.setting.dataset}: what it hides is still there."
        )
    doubts = Counter(f.name for s in defended for f in s.attacks if f.verdict == "uncalibrated")
    if doubts:
        named = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in doubts.most_common(NAMED))
        more = f" and {len(doubts) - NAMED} more" if len(doubts) > NAMED else ""
        found.append(f"Uncalibrated, so not counted: {named}{more}. They fail, or were not run, where nothing defends.")
    for status in ("skipped", "failed"):
        those = [o for o in rows.outcomes if o.status == status]
        if those:
            [(reason, _)] = Counter(o.reason for o in those).most_common(1)
            found.append(f"{len(those)} of {len(rows.outcomes)} rows {status}; most often: {reason}.")
    if not_run:
        found.append(f"{not_run} planned {'cell is' if not_run == 1 else 'cells are'} not run yet.")
    if unattacked := _with(defended, "not attacked"):
        found.append(f"Not attacked: {_names(unattacked)}.")
    scales = sorted({s.scale for s in rows.settings.values()})
    if scales != ["paper"]:
        found.append(f"Scale {' and '.join(scales)}: not the papers' own settings.")
    return found


def _alone(standings: Sequence[Standing]) -> str:
    """The data set, if there is but one."""
    found = {s.setting.dataset for s in standings}
    return found.pop() if len(found) == 1 else ""


def _name(standing: Standing, every: Sequence[Standing]) -> str:
    return standing.name if _alone(every) else f"{standing.name} on {standing.setting.dataset}"


def _with(standings: Sequence[Standing], verdict: str) -> list[Standing]:
    return [s for s in standings if s.verdict == verdict]


def _recovered(standing: Standing) -> float:
    found = standing.strongest
    return standing.sign * found.seen.value if found is not None and found.seen.value is not None else 0.0


def _said(standing: Standing) -> str:
    found = standing.strongest
    if found is None or found.seen.value is None:
        return "nothing was recovered"
    beside = [f"undefended {found.seen.undefended:.2f}"] if found.seen.undefended is not None else []
    beside += [f"a blind guess {found.seen.floor:.2f}"] if found.seen.floor is not None else []
    told = f" ({', '.join(beside)})" if beside else ""
    return f"{found.name} recovers {standing.leak} {found.seen.value:.2f}{told}"


def _loss(standing: Standing, base: Standing | None) -> float | None:
    if base is None or base.utility is None or standing.utility is None or standing.useless:
        return None
    return base.utility.value - standing.utility.value


def _names(standings: Sequence[Standing], apart: bool = True) -> str:
    """With the data sets they are so on, if there are several: `a and b on mnist, c on mnist and cifar10`."""
    if not apart:
        return _listed(list(dict.fromkeys(s.name for s in standings)))
    where: dict[str, dict[str, None]] = {}
    for s in standings:
        where.setdefault(s.name, {})[s.setting.dataset] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, places in where.items():
        alike.setdefault(tuple(places), []).append(name)
    return ", ".join(f"{_listed(names)} on {_listed(places)}" for places, names in alike.items())


def _listed(names: Sequence[str]) -> str:
    said = [*names[:NAMED], f"{_number(len(names) - NAMED)} more"] if len(names) > NAMED + 1 else list(names)
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _verb(standings: Sequence[Standing], verb: str) -> str:
    return f"{verb}s" if len({s.name for s in standings}) == 1 else verb


def _number(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else f"{count:,}"
