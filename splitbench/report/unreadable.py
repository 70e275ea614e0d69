"""What is wrong with a store, by name, so that the rest can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from splitbench.store.outcome import Outcome
from splitbench.store.store import Damage, Store

_NAMED = 5


def damage_notes(store: Store, damaged: Sequence[Damage], shown: Iterable[Outcome]) -> list[str]:
    """Files that cannot be read, and runs whose folder was deleted though their rows are shown."""
    lost = store.lost(shown)
    named = ", ".join(lost[:_NAMED]) + (f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else "")
    gone = f"gone from {store.path / 'trained'}: {named}; the rows are shown, but cannot be attacked or scored again"
    return [*(f"{d.path.name} cannot be read: {d.reason}" for d in damaged), *([gone] if lost else [])]
