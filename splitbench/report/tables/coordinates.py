"""Where an outcome stands in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from splitbench.core.threat import KNOWLEDGE
from splitbench.plan.axes import part_of
from splitbench.report.statistics.axis_values import value_on
from splitbench.report.statistics.measured import ADVERSARY
from splitbench.store.outcome import Outcome, at_rung

AXES = ("dataset", "model", "cut", "topology", "clients", "seed", "scale", "goal", "party", "protected")
UNDEFENDED = "none"
Placed = tuple[Mapping[str, str], Outcome]  # its name on each axis


def of_adversary(axis: str) -> bool:
    """Whether the axis is about the adversary, of whom the task knows nothing."""
    return axis in ADVERSARY or axis.partition(".")[0] in ("attack", "threat", "effort")


def placed(outcomes: Sequence[Outcome], rows: str, columns: str) -> list[Placed]:
    """Each outcome where it stands; not those without a value on an axis.

    Knowledge of the defense, and who attacks, is named with the attack, unless it is an axis itself. A component whose
    setting is an axis goes by its name alone. Undefended runs have no settings: they stand at `none` beside each
    defense that has them.
    """
    paths = [axis for axis in (rows, columns) if "." in axis]
    by_name = {part[0] for axis in paths if (part := part_of(axis))}
    rungs = _rungs([o for o in outcomes if o.kind == "attack"])
    defended = [o for o in outcomes if o.defense != UNDEFENDED]
    beside = dict.fromkeys(
        value_on(o, "defense") or "" for o in defended if all(value_on(o, a) is not None for a in paths if _defends(a))
    )
    found: dict[str, list[Placed]] = {}
    for o in outcomes:
        if o.kind == "attack":
            found[o.key] = [
                (at, o) for at in _placed(o, rows, columns, paths, by_name, beside) for at in _at_rungs(at, o, rungs)
            ]
    of_run: dict[str, list[Mapping[str, str]]] = {}  # the task is the same whatever the adversary is
    for places in found.values():
        for at, o in places:
            of_run.setdefault(o.run, []).append(at)
    told = [axis for axis in (rows, columns) if of_adversary(axis) and axis != "attack"]
    for o in outcomes:
        if o.kind == "train":
            own = _placed(o, rows, columns, [a for a in paths if a not in told], by_name, beside)
            mounted = {tuple(at[a] for a in told): None for at in of_run.get(o.run, ())} if told else {(): None}
            usual = {"knowledge": KNOWLEDGE[0]}
            mounted = mounted or {tuple(usual.get(a, "") for a in told): None}
            found[o.key] = [
                ({"knowledge": KNOWLEDGE[0], **at, **dict(zip(told, m, strict=True))}, o) for at in own for m in mounted
            ]
    return [one for o in outcomes for one in found[o.key]]


def _defends(axis: str) -> bool:
    return (part_of(axis) or ("",))[0] == "defense"


def _placed(
    o: Outcome, rows: str, columns: str, paths: Sequence[str], by_name: set[str], beside: Mapping[str, None]
) -> list[dict[str, str]]:
    at = {axis: value_on(o, axis) or "" for axis in AXES}
    at["defense"] = (value_on(o, "defense") or "") if "defense" in by_name else o.defense
    at["attack"] = o.attack_name if "attack" in by_name else o.attack if "party" in (rows, columns) else o.label
    several = [at]
    for axis in paths:
        value = value_on(o, axis)
        if value is None and _defends(axis) and o.defense == UNDEFENDED:
            value = UNDEFENDED
            several = [{**one, "defense": name} for one in several for name in beside]
        if value is None:
            return []
        several = [{**one, axis: value} for one in several]
    if "knowledge" in (rows, columns) or "attack" in by_name:
        return [{**one, "apart": "yes"} for one in several]
    return several


def _at_rungs(at: Mapping[str, str], o: Outcome, rungs: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    apart = "apart" in at
    mine = {axis: value for axis, value in at.items() if axis != "apart"}
    return [
        {**mine, "knowledge": r, "attack": at["attack"] if apart else at_rung(at["attack"], r)} for r in rungs[o.key]
    ]


def _rungs(attacks: Sequence[Outcome]) -> dict[str, list[str]]:
    """The rungs of knowledge at which each attack stands, which is one, its own, if something defends.

    Where nothing does there is nothing to know: the twin of attacks on a defense stands at every rung they were given,
    but for those that were mounted there too.
    """
    above: dict[str, dict[str, None]] = {}  # by twin
    beside = set()
    for o in attacks:
        if o.defense == UNDEFENDED:
            beside.add((o.twin, o.knowledge))
        else:
            above.setdefault(o.twin, {})[o.knowledge] = None
    return {
        o.key: [r for r in above.get(o.key, {}) if r == o.knowledge or (o.key, r) not in beside] or [o.knowledge]
        for o in attacks
    }
