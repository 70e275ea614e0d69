"""A recipe: one file that says everything, validated whole before anything runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splitbench.core.component import Part
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.core.registry import Kind
from splitbench.core.threat import ThreatModel, is_party
from splitbench.plan import components
from splitbench.plan.cells import SCALES, Cell, Counts, Options, RunSpec, Training, usual_threat
from splitbench.plan.document import Document
from splitbench.plan.fields import defaults_of, fields_of
from splitbench.plan.schema import BLOCKS, check, coerce

DEFAULTS: dict[str, Any] = {
    "title": "",
    "data": "fashion_mnist_mini",
    "model": "resnet18",
    "cut": "stem",
    "topology": "vanilla",
    "auxiliary": None,
    **defaults_of(Options),
    "defenses": ["none"],
    "attacks": [],
    "metrics": [],  # besides all that apply, which are cheap
    "seeds": [0],
    "training": {},
    "samples": {},
    "threat": {},
    "bar": {},
    "table": {},
    "paper": {},
}


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    scale: str
    cells: tuple[Cell, ...]
    metrics: tuple[Part, ...]
    table: Mapping[str, str]
    paper: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path, scale: str = "desk", name: str | None = None) -> Recipe:
        """Raises once, with every mistake."""
        document = Document.load(path)
        return cls.from_document(document, scale, name or path.stem)

    @classmethod
    def from_document(cls, document: Document, scale: str, name: str) -> Recipe:
        mistakes = list(document.mistakes)
        if scale not in SCALES:
            mistakes.append(Mistake("scale", f"no scale named '{scale}'{nearest(scale, SCALES)}"))
        if not isinstance(document.data, dict):
            mistakes.append(
                Mistake("", f"a recipe is a mapping of keys to values, this is a {type(document.data).__name__}")
            )
        else:
            mistakes += check(document.data)
        document.refuse(mistakes)
        merged = _merge(DEFAULTS, {k: v for k, v in document.data.items() if k not in ("scales", "cases")})
        chosen = (document.data.get("scales") or {}).get(scale) or {}
        merged = _merge(merged, {k: v for k, v in chosen.items() if k != "cases"})
        cases = chosen.get("cases") or document.data.get("cases") or [{}]
        cells: list[Cell] = []
        for i, case in enumerate(cases):
            found, wrong = _cells(coerce(_merge(merged, case)), scale, f"cases[{i}]" if case else "")
            cells += found
            mistakes += wrong
        document.refuse(mistakes)
        metrics = tuple(_must("metrics", spec) for spec in merged["metrics"])
        document.refuse([mistake for part in metrics for mistake in _unusable(part)])
        return cls(name, merged["title"], scale, _unique(cells), metrics, merged["table"], merged["paper"])

    def plan(self) -> dict[str, Any]:
        """As the store remembers it: the keys of the cells, and the seeds that each is planned with."""
        alike = [dataclasses.replace(cell, run=dataclasses.replace(cell.run, seed=0)).key for cell in self.cells]
        seeds: dict[str, list[int]] = {}
        for key, cell in zip(alike, self.cells, strict=True):
            seeds.setdefault(key, []).append(cell.run.seed)
        return {
            "title": self.title,
            "table": dict(self.table),
            "paper": dict(self.paper),
            "cells": [cell.key for cell in self.cells],
            "seeds": [seeds[key] for key in alike],
            "bars": [dict(cell.bar) for cell in self.cells],
        }


def _unique(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Each cell once, with the bars of all cases that ask for it."""
    found: dict[str, Cell] = {}
    for cell in cells:
        known = found.get(cell.key, cell)
        found[cell.key] = dataclasses.replace(cell, bar={**known.bar, **cell.bar})
    return tuple(found.values())


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Later wins; the blocks of a recipe are merged setting by setting, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        merged[key] = {**base.get(key, {}), **value} if key in BLOCKS else value
    return merged


def _must(kind: Kind, spec: Any) -> Part:
    part, mistakes = components.resolve(kind, spec, kind)
    if part is None:
        raise SplitbenchError(mistakes)
    return part


def _unusable(metric: Part) -> list[Mistake]:
    """What is wrong with the files that a metric reads, found before anything is trained."""
    try:
        components.build(metric).check()
    except SplitbenchError as error:
        return [Mistake(f"metrics.{metric.name}", mistake.what) for mistake in error.mistakes]
    return []


def _cells(merged: Mapping[str, Any], scale: str, inside: str) -> tuple[list[Cell], list[Mistake]]:
    """The cells of one case: each defense trained with each seed, and each attack on each of those."""
    try:
        granted = [(run, grant(merged["threat"], run)) for run in _runs(merged, scale)]
    except SplitbenchError as error:
        return [], [dataclasses.replace(m, where=_place(m.where, inside)) for m in error.mistakes]
    attacks = [_must("attacks", spec) for spec in merged["attacks"]]
    cells: list[Cell] = []
    for run, threat in granted:
        trained = Cell(run, bar=merged["bar"])
        mounted = [Cell(run, attack, threat) for attack in attacks]
        # A defended number stands beside the same on the undefended twin, asked for or not.
        twins = [trained.twin, *(cell.twin for cell in mounted)] if run.defenses and (mounted or trained.bar) else []
        cells += [*twins, trained, *mounted]
    return cells, []


def _place(where: str, inside: str) -> str:
    return where or inside or "data"


def _runs(merged: Mapping[str, Any], scale: str) -> Iterator[RunSpec]:
    from splitbench.plan.feasible import check_run, load_data

    data = _must("data", merged["data"])
    auxiliary = _must("data", merged["auxiliary"]) if merged["auxiliary"] is not None else None
    common = {
        "data": data,
        "data_digest": load_data(data).digest,
        "auxiliary": auxiliary,
        "auxiliary_digest": load_data(auxiliary).digest if auxiliary is not None else "",
        "model": _must("models", merged["model"]),
        "topology": _must("topologies", merged["topology"]),
        "training": Training(**merged["training"]),
        "samples": Counts(**merged["samples"]),
        "scale": scale,
        "cut": merged["cut"],
        **{field.name: merged[field.name] for field in fields_of(Options)},
    }
    for spec, seed in itertools.product(merged["defenses"], merged["seeds"]):
        several = spec if isinstance(spec, list) else [spec]
        defenses = tuple(part for one in several if (part := _must("defenses", one)).name != "none")
        run = RunSpec(defenses=defenses, seed=seed, **common)
        check_run(run)
        yield run


def grant(asked: Mapping[str, Any], run: RunSpec) -> ThreatModel:
    """The threat model of a recipe, completed by what is usual. Raises if the run cannot grant it."""
    topology = components.build(run.topology)
    party = asked.get("party", "server")
    threat = dataclasses.replace(usual_threat(run, topology.shares_labels, party), **asked)
    mistakes = _check_party(threat, run)
    whose = "private" if threat.private else "auxiliary"
    held = getattr(run.samples, whose)
    if threat.auxiliary > held:
        what = f"grants {threat.auxiliary} samples, samples.{whose} has {held or 'no fixed number'}"
        mistakes.append(Mistake("threat.auxiliary", what))
    if threat.transcript and not run.record:
        mistakes.append(
            Mistake(
                "threat.transcript", "the run keeps no transcript; train it with `record: true`, or do not grant it"
            )
        )
    if topology.shares_labels and threat.role == "server" and not threat.labels:
        mistakes.append(
            Mistake(
                "threat.labels",
                f"the topology '{run.topology.name}' sends the server the labels, which the "
                "threat model denies it; use u_shaped, or grant them",
            )
        )
    if mistakes:
        raise SplitbenchError(mistakes)
    return threat


def _check_party(threat: ThreatModel, run: RunSpec) -> list[Mistake]:
    clients = [f"client{i}" for i in range(run.clients)]
    if not is_party(threat.party):
        return [Mistake("threat.party", f"no party named '{threat.party}'{nearest(threat.party, _parties(clients))}")]
    if threat.role == "client" and threat.party not in clients:
        there = clients[0] if len(clients) == 1 else f"{clients[0]} to {clients[-1]}"
        return [Mistake("threat.party", f"there is no {threat.party}; the run has {there}")]
    return []


def _parties(clients: Sequence[str]) -> list[str]:
    return ["server", "mixer", *clients]
