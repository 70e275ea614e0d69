"""A store with rows of a paper's table, as the runner would have left them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splitbench.core.goal import GOALS
from splitbench.store.outcome import Outcome, Score
from splitbench.store.store import Store

SAMPLES = tuple(range(100, 124))
ROLES = {**dict.fromkeys(("black", "mean_image", "class_mean", "nearest_auxiliary", "majority", "coin"), "floor"),
         "oracle_decoder": "bound"}  # fmt: skip


def values(mean: float, seed: int = 0, images: int = len(SAMPLES), spread: float = 0.05) -> tuple[float, ...]:
    """Around exactly this mean."""
    noise = np.random.default_rng(seed).normal(0, spread, images)
    return tuple((mean + noise - noise.mean()).tolist())


def part(name: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "version": 1, "settings": dict(settings or {})}


class Rows:
    """Puts rows into a store, and remembers their keys for a plan."""

    def __init__(self, path: Path, scale: str = "desk") -> None:
        self.store, self.scale, self.keys = Store(path), scale, list[str]()

    def train(self, accuracy: float, n: int = 2000, **at: Any) -> str:
        run = self._run(**at)
        key = self._name(run)
        scores = (Score("accuracy", "1", accuracy, n, utility=True),)
        bare = self._name(self._run(**{**at, "defense": "none", "settings": {}, "protected": None}))
        return self._put(key, key, "train", "", {"run": run}, scores, (), at, bare, at.get("bars", ()))

    def attack(self, name: str, leak: float | Sequence[float], *, bar: float = 0.0, knowledge: str = "none",
               samples: tuple[int, ...] = SAMPLES, threat: Mapping[str, Any] | None = None,
               **at: Any) -> str:  # fmt: skip
        """Scored in the metric that ranks the goal (`goal`, `modality`); as a whole if that is so."""
        run = self._run(**at)
        cell = {"run": run, "attack": part(name, at.get("attack_settings")),
                "threat": {"knowledge": knowledge, **(threat or {})}}  # fmt: skip
        goal = GOALS[at.get("goal", "inputs")]
        metric, whole = goal.ranking(at.get("modality", "image")), goal.worst == "whole"
        each = tuple(values(leak)) if isinstance(leak, float) else tuple(leak)
        version = "wang2004" if metric == "ssim" else "1"
        scores = at.get("scores") or (
            Score(metric, version, float(np.mean(each)), len(each), () if whole else each, "clamp"),
        )
        bare = self._run(**{**at, "defense": "none", "settings": {}, "protected": None})
        key, twin = (f"{self._name(r)}-{name}-{k}" for r, k in ((run, knowledge), (bare, "none")))
        bars = ((metric, bar),) if bar else ()
        return self._put(key, self._name(run), "attack", name, cell, scores, samples, at, twin, bars)

    def plan(self, recipe: str, **more: Any) -> None:
        document = {"title": recipe, "table": {}, "cells": self.keys, **more}
        self.store.put_plan(recipe, self.scale, document)

    def _run(self, defense: str = "none", settings: Mapping[str, Any] | None = None, seed: int = 0,
             dataset: str = "cifar10", protected: int | None = None, clients: int = 1,
             **_: Any) -> dict[str, Any]:  # fmt: skip
        defenses = [] if defense == "none" else [part(defense, settings)]
        return {"data": part(dataset), "defenses": defenses, "protected": protected, "clients": clients, "seed": seed}

    def _name(self, run: Mapping[str, Any]) -> str:
        defenses = "+".join(f"{d['name']}{d['settings']}" for d in run["defenses"]) or "none"
        safe = "".join(c if c.isalnum() else "_" for c in defenses)
        return f"{run['data']['name']}-{safe}-{run['protected']}-{run['seed']}"

    def _put(self, key: str, run: str, kind: Any, attack: str, cell: Mapping[str, Any], scores: tuple[Score, ...],
             samples: tuple[int, ...], at: Mapping[str, Any], twin: str,
             bars: tuple[tuple[str, float], ...]) -> str:  # fmt: skip
        defense = at.get("defense", "none")
        status = at.get("status", "done")
        self.store.put(
            Outcome(
                key=key, run=run, kind=kind, status=status, reason=at.get("reason", ""), scale=self.scale,
                dataset=at.get("dataset", "cifar10"), model="m", cut="c", topology="vanilla",
                clients=at.get("clients", 1), defense=defense, attack=attack, seed=at.get("seed", 0), created=1.0,
                cell=cell, provenance={}, twin=twin, bars=bars, scores=scores if status == "done" else (),
                costs=at.get("costs", {}), samples=samples if kind == "attack" else (),
                goal=at.get("goal", "") if kind == "attack" else "", modality=at.get("modality", "image"),
                party=at.get("party", "") if kind == "attack" else "",
                role=at.get("role", ROLES.get(attack, "attack")) if kind == "attack" else "",
            )
        )  # fmt: skip
        self.keys.append(key)
        return key
