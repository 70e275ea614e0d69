"""A recipe: one file that tells everything, validated whole before anything runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from splitbench.core.component import Part
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.core.registry import Kind
from splitbench.core.threat import ThreatModel
from splitbench.plan import components
from splitbench.plan.cells import SCALES, Cell, Counts, RunSpec, Training
from splitbench.plan.document import Document
from splitbench.plan.schema import BLOCKS, check, coerce

DEFAULTS: dict[str, Any] = {
    "title": "",
    "data": "fashion_mnist_mini",
    "model": "resnet18",
    "cut": "stem",
    "topology": "vanilla",
    "clients": 1,
    "partition": "iid",
    "alpha": 0.5,
    "protected": None,
    "record": False,
    "defenses": ["none"],
    "attacks": [],
    "metrics": ["mse", "psnr", "ssim"],
    "seeds": [0],
    "training": {},
    "samples": {},
    "threat": {},
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
        unique = tuple({cell.key: cell for cell in cells}.values())
        return cls(name, merged["title"], scale, unique, metrics, merged["table"], merged["paper"])

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
        }


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


def _cells(merged: Mapping[str, Any], scale: str, inside: str) -> tuple[list[Cell], list[Mistake]]:
    """The cells of one case: each defense trained with each seed, and each attack on each of those."""
    try:
        runs = list(_runs(merged, scale))
    except SplitbenchError as error:
        return [], [dataclasses.replace(m, where=m.where or inside or "data") for m in error.mistakes]
    attacks = [_must("attacks", spec) for spec in merged["attacks"]]
    cells: list[Cell] = []
    for run in runs:
        threat = grant(merged["threat"], run)
        mounted = [Cell(run, attack, threat) for attack in attacks]
        # A defended number stands beside the same attack on the undefended twin, asked for or not.
        twins = [Cell(run).twin, *(cell.twin for cell in mounted)] if run.defenses and mounted else []
        cells += [*twins, Cell(run), *mounted]
    return cells, []


def _runs(merged: Mapping[str, Any], scale: str) -> Iterator[RunSpec]:
    from splitbench.plan.feasible import check_run, load_data

    data = _must("data", merged["data"])
    common = {
        "data": data,
        "data_digest": load_data(data).digest,
        "model": _must("models", merged["model"]),
        "topology": _must("topologies", merged["topology"]),
        "training": Training(**merged["training"]),
        "samples": Counts(**merged["samples"]),
        "scale": scale,
        **{key: merged[key] for key in ("cut", "clients", "partition", "alpha", "protected", "record")},
    }
    for spec, seed in itertools.product(merged["defenses"], merged["seeds"]):
        several = spec if isinstance(spec, list) else [spec]
        defenses = tuple(part for one in several if (part := _must("defenses", one)).name != "none")
        run = RunSpec(defenses=defenses, seed=seed, **common)
        check_run(run)
        yield run


def grant(asked: Mapping[str, Any], run: RunSpec) -> ThreatModel:
    """The threat model of a recipe; what it leaves open is the strongest honest but curious server.

    It knows the layers, holds every auxiliary sample and may query the client once for each; it has labels where
    the topology sends them. It does not tamper.
    """
    topology = components.build(run.topology)
    auxiliary = run.samples.auxiliary
    usual = ThreatModel(
        labels=topology.shares_labels, architecture=True, auxiliary=auxiliary, queries=auxiliary, transcript=run.record
    )
    given = {f.name: asked.get(f.name, getattr(usual, f.name)) for f in fields(ThreatModel)}
    threat = ThreatModel(**given)
    if threat.auxiliary > auxiliary:
        raise SplitbenchError(
            [Mistake("threat.auxiliary", f"grants {threat.auxiliary} samples, samples.auxiliary has {auxiliary}")]
        )
    if threat.transcript and not run.record:
        raise SplitbenchError(
            [
                Mistake(
                    "threat.transcript", "the run keeps no transcript; train it with `record: true`, or do not grant it"
                )
            ]
        )
    if topology.shares_labels and not threat.labels:
        raise SplitbenchError(
            [
                Mistake(
                    "threat.labels",
                    f"the topology '{run.topology.name}' sends the server the labels, which the "
                    "threat model denies it; use u_shaped, or grant them",
                )
            ]
        )
    return threat
