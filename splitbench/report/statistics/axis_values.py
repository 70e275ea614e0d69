"""Where a row stands on an axis of a table, a curve or a claim."""

from __future__ import annotations

from collections.abc import Mapping

from splitbench.plan.axes import find, plain
from splitbench.store.outcome import Outcome

_NAMED = ("dataset", "model", "cut", "topology", "clients", "seed", "scale", "goal", "party", "knowledge")


def value_on(outcome: Outcome, axis: str) -> str | None:
    """None if it does not stand there: an undefended run has no settings of a defense."""
    if axis in _NAMED:
        return plain(getattr(outcome, axis))
    if axis == "attack":
        return outcome.attack_name
    run = outcome.cell.get("run", {})
    if axis in ("defense", "protected"):
        defenses = [d for d in run.get("defenses", ()) if isinstance(d, Mapping)]
        if axis == "defense":
            return "+".join(str(d["name"]) for d in defenses) or "none"
        protected = run.get("protected")
        return plain((outcome.clients if protected is None else protected) if defenses else 0)
    value = find(outcome.cell, axis)
    return None if value is None else plain(value)
