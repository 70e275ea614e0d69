"""Which rows are of the newest version of their attack and defenses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from splitbench.store.outcome import Outcome

Version = tuple[str, str]  # of a component: its name and version


def without_older(found: Sequence[Outcome]) -> tuple[Sequence[Outcome], str]:
    """Those of the newest attack and defenses, and a sentence about what is left out for it.

    Versions are compared as numbers (2 or "2+abc" after 1). Of a component from a file the version is a digest, which
    has no order, and so have names like "wang2004": of those, the one that the latest row was made with is the newest.
    """
    versions = {o.key: _versions(o) for o in found}
    if len(set(versions.values())) < 2:
        return found, ""
    latest: dict[tuple[int, Version], float] = {}
    for o in found:
        for slot in enumerate(versions[o.key]):
            latest[slot] = max(o.created, latest.get(slot, o.created))
    several: dict[tuple[int, str], set[str]] = {}
    for place, (name, version) in latest:
        several.setdefault((place, name), set()).add(version)

    def order(o: Outcome) -> tuple[tuple[int, float], ...]:
        ranks = []
        for place, (name, version) in enumerate(versions[o.key]):
            numbers = {_number(v) for v in several[place, name]}
            number = _number(version) if None not in numbers else None
            ranks.append((number or 0, latest[place, (name, version)]))
        return tuple(ranks)

    newest = versions[max(found, key=order).key]
    kept = [o for o in found if versions[o.key] == newest]
    left = len(found) - len(kept)
    rows = "1 row" if left == 1 else f"{left} rows"
    return kept, f"leaves out {rows} of an older version of the attack or the defense"


def _versions(outcome: Outcome) -> tuple[Version, ...]:
    parts: list[Any] = [outcome.cell.get("attack") or {}, *outcome.cell.get("run", {}).get("defenses", ())]
    return tuple((str(p.get("name", "")), str(p.get("version", 0))) for p in parts if isinstance(p, Mapping))


def _number(version: str) -> int | None:
    """2 for 2 and for "2+abc"; a digest that happens to be all digits is long, and no number."""
    head = version.partition("+")[0]
    return int(head) if head.isdecimal() and len(head) < 9 else None
