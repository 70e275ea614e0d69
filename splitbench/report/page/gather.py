"""The rows of a store, sorted into settings within which defenses can be compared."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from splitbench.core.errors import SplitbenchError
from splitbench.plan.cells import digest
from splitbench.report.statistics.calibration import Bars, planned_bars
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

TOLD = 3  # differences in a name; more would be no name
K = TypeVar("K", bound=Hashable)
_NOT_A_SETTING = ("defenses", "protected", "seed")


@dataclass(frozen=True)
class Setting:
    """Everything about a run but its defense and its seed."""

    key: str
    name: str
    dataset: str
    scale: str


@dataclass(frozen=True)
class Gathered:
    """What a store holds, and what of it could not be read."""

    store: Store
    outcomes: tuple[Outcome, ...]
    settings: Mapping[str, Setting]  # by key, in the order they come
    setting_of: Mapping[str, str]  # by run
    defense_of: Mapping[str, str]  # by run; the name that distinguishes it within its setting
    attacker_of: Mapping[str, str]  # by outcome; likewise, with what it knows
    identity_of: Mapping[str, str]  # by outcome; a digest of the attack, its threat model and its effort
    bars: Mapping[str, Bars] = field(default_factory=dict)  # of undefended trainings, by outcome, as recipes say
    problems: list[str] = field(default_factory=list)  # files, by name, and what is wrong with them

    @cached_property
    def by_key(self) -> dict[str, Outcome]:
        return {o.key: o for o in self.outcomes}

    @cached_property
    def attacks_on(self) -> dict[str, list[Outcome]]:
        """By run."""
        found: dict[str, list[Outcome]] = {}
        for o in self.outcomes:
            if o.kind == "attack":
                found.setdefault(o.run, []).append(o)
        return found


def gather(store: Store) -> Gathered:
    outcomes, damaged = store.outcomes()
    problems = [f"{d.path.name} cannot be read: {d.reason}" for d in damaged]
    if not outcomes:
        raise SplitbenchError(
            "\n  ".join(
                [f"nothing to report in {store.path}; `splitbench train` or `splitbench run` makes results", *problems]
            )
        )
    settings: dict[str, tuple[Outcome, dict[str, Any]]] = {}
    setting_of: dict[str, str] = {}
    defenses: dict[tuple[str, str], tuple[str, Any]] = {}
    defended: dict[str, tuple[str, str]] = {}
    for o in outcomes:
        if o.run in setting_of:
            continue
        run = dict(o.cell.get("run", {}))
        document = {k: v for k, v in run.items() if k not in _NOT_A_SETTING}
        place = [o.scale, o.dataset, o.model, o.cut, o.topology, o.clients]
        key = digest([place, document])
        settings.setdefault(key, (o, document))
        setting_of[o.run] = key
        parts = {"defenses": run.get("defenses"), "protected": run.get("protected")}
        defended[o.run] = (key, digest([o.defense, parts]))
        defenses.setdefault(defended[o.run], (o.defense, parts))
    attackers, identities = _attackers(outcomes, setting_of)
    names = distinct({key: (_title(o), document) for key, (o, document) in settings.items()})
    return Gathered(
        store,
        tuple(outcomes),
        {key: Setting(key, names[key], o.dataset, o.scale) for key, (o, _) in settings.items()},
        setting_of,
        _within(defenses, defended),
        attackers,
        identities,
        _bars(store),
        problems,
    )


def prose(metric: str) -> str:
    """A metric as a sentence has it: SSIM, AUC, token accuracy."""
    return metric.upper() if len(metric) <= 4 else metric.replace("_", " ")


def _bars(store: Store) -> dict[str, Bars]:
    found: dict[str, Bars] = {}
    for name, scale in store.plans():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, SplitbenchError):
            # A plan that cannot be read is reported where its table is made.
            found |= planned_bars(store.plan(name, scale) or {"cells": []})
    return found


def _attackers(outcomes: Iterable[Outcome], setting_of: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Two versions of an attack, or two threat models, are two attackers even where their labels are the same."""
    found: dict[tuple[str, str], tuple[str, Any]] = {}
    which: dict[str, tuple[str, str]] = {}
    for o in outcomes:
        if o.kind == "attack":
            document = {part: o.cell.get(part) for part in ("attack", "threat", "effort")}
            which[o.key] = (setting_of[o.run], digest([o.attack, document]))
            found.setdefault(which[o.key], (o.adversary, document))
    return _within(found, which), {outcome: identity for outcome, (_, identity) in which.items()}


def _within(found: Mapping[tuple[str, str], tuple[str, Any]], which: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Names that are distinct within a setting."""
    names = distinct({key: (name, [key[0], document]) for key, (name, document) in found.items()}, apart=True)
    return {thing: names[key] for thing, key in which.items()}


def _title(o: Outcome) -> str:
    clients = "" if o.clients == 1 else f" · {o.clients} clients"
    return f"{o.dataset} · {o.model} cut at {o.cut} · {o.topology}{clients} · {o.scale}"


def distinct(named: Mapping[K, tuple[str, Any]], apart: bool = False) -> dict[K, str]:
    """Names for things that may share one: those that do are distinguished by what differs in their documents.

    `apart`: a document is a place and a document, and only names at the same place must differ.
    """
    groups: dict[tuple[str, str], list[K]] = {}
    for key, (name, document) in named.items():
        groups.setdefault((name, document[0] if apart else ""), []).append(key)
    told: dict[K, str] = {}
    for (name, _), keys in groups.items():
        if len(keys) == 1:
            told[keys[0]] = name
            continue
        leaves = {key: dict(flat(named[key][1][1] if apart else named[key][1])) for key in keys}
        paths = dict.fromkeys(path for of in leaves.values() for path in of)
        differ = [p for p in paths if len({repr(of.get(p)) for of in leaves.values()}) > 1]
        taken: dict[str, int] = {}
        for key in keys:
            said = ", ".join(_said(p, leaves[key].get(p)) for p in differ[:TOLD]) + (", …" if differ[TOLD:] else "")
            full = f"{name} [{said}]" if said else name
            taken[full] = taken.get(full, 0) + 1
            told[key] = full if taken[full] == 1 else f"{full} #{taken[full]}"
    return told


def _said(path: str, value: Any) -> str:
    if path == "samples.private" and value == 0:
        return "private all"
    return f"{path.rpartition('.')[2]} {value:g}" if isinstance(value, float) else f"{path.rpartition('.')[2]} {value}"


def flat(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of plain data, by their paths."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(document, list):
        for i, value in enumerate(document):
            yield from flat(value, f"{path}.{i}" if path else str(i))
    else:
        yield path, document
