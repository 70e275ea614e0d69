"""Attacks as the runner stores them: with the run, the attack and the threat model in the cell."""

from __future__ import annotations

from pathlib import Path

from splitbench.core import registry
from splitbench.store.outcome import Score
from splitbench.store.store import Store
from tests.report._rows import ROLES
from tests.runner.test_store import outcome


def mount(
    store: Path,
    attack: str,
    values: tuple[float, ...],
    knowledge: str = "none",
    *,
    defense: str = "noise",
    seed: int = 0,
    metric: str = "ssim",
    auxiliary: int = 9,
    samples: tuple[int, ...] | None = None,
    bar: float = 0.0,
    **changes: object,
) -> str:
    """Put it in the store; returns its key."""
    key = f"{attack}-{knowledge}-{defense}-{seed}-{auxiliary}"
    threat = {"labels": False, "auxiliary": auxiliary, "knowledge": knowledge}
    name = attack.partition("(")[0]
    cell = {
        "run": {"defenses": [defense], "seed": seed},
        "attack": {"name": name, "settings": {"label": attack}, "version": 1},
        "threat": threat,
    }
    score = Score(metric, "1", sum(values) / len(values) if values else 0.0, len(values), values, "clamp")
    low, near = (
        registry.declared("metrics", metric, name) for name in ("leaks_when", "tolerance")
    )  # as the runner does
    each = () if changes.get("kind") == "train" else values
    score = Score(metric, "1", score.value, score.n, each, "clamp", leaks_when=low, tolerance=near)
    row = {
        "bars": ((metric, bar),) if bar else (), "role": ROLES.get(name, "attack"),
        "run": f"{defense}-{seed}", "attack": attack, "defense": defense, "seed": seed, "cell": cell,
        "twin": f"{attack}-none-none-{seed}-{auxiliary}",
        "scores": (score,), "samples": tuple(range(len(values))) if samples is None else samples, **changes,
    }  # fmt: skip
    Store(store).put(outcome(key, **row))
    return key
