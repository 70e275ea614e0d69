"""Where an outcome stands in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from splitbench.core.threat import KNOWLEDGE
from splitbench.store.outcome import Outcome, at_rung

AXES = ("defense", "attack", "knowledge", "dataset", "model", "cut", "topology", "clients", "seed")
Placed = tuple[Mapping[str, str], Outcome]  # its name on each axis


def placed(outcomes: Sequence[Outcome], rows: str, columns: str) -> Iterator[Placed]:
    """Each outcome where it stands. Knowledge of the defense is told with the attack, unless it is an axis itself."""
    apart = "knowledge" in (rows, columns)
    rungs = _rungs([o for o in outcomes if o.kind == "attack"])
    of_run: dict[str, list[str]] = {}  # the task is the same whatever the adversary knows
    for o in outcomes:
        if o.kind == "attack" and apart:
            of_run.setdefault(o.run, []).extend(rungs[o.key])
    for o in outcomes:
        for rung in rungs.get(o.key) or dict.fromkeys(of_run.get(o.run, KNOWLEDGE[:1])):
            attack = o.attack if apart or o.kind == "train" else at_rung(o.attack, rung)
            yield {**{axis: str(getattr(o, axis)) for axis in (*AXES, "scale")}, "knowledge": rung, "attack": attack}, o


def _rungs(attacks: Sequence[Outcome]) -> dict[str, list[str]]:
    """The rungs of knowledge at which each attack stands, which is one, its own, if something defends.

    Where nothing does there is nothing to know: the twin of attacks on a defense stands at every rung they were given,
    but for those that were mounted there too.
    """
    above: dict[str, dict[str, None]] = {}  # by twin
    beside = set()
    for o in attacks:
        if o.defense == "none":
            beside.add((o.twin, o.knowledge))
        else:
            above.setdefault(o.twin, {})[o.knowledge] = None
    return {
        o.key: [r for r in above.get(o.key, {}) if r == o.knowledge or (o.key, r) not in beside] or [o.knowledge]
        for o in attacks
    }
