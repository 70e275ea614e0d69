"""Runs and attacks of about a second, for every kind of data."""

from __future__ import annotations

from typing import Any

import pytest

from splitbench.core import registry
from splitbench.core.attack import Attack
from splitbench.core.errors import SplitbenchError
from splitbench.plan import components
from splitbench.plan.feasible import load_data

COUNTS = {"private": 24, "auxiliary": 12, "evaluation": 3}
TRAINING = {"epochs": 1, "batch": 8}
IMAGES: dict[str, Any] = {"model": "lenet5", "cut": "conv1", "training": TRAINING, "samples": COUNTS}
# Sixteen tokens and a class token, for what shuffles them and what puts them back.
TOKENS: dict[str, Any] = {
    **IMAGES,
    "model": {"vit_tiny": {"patch": 7, "depth": 2, "width": 12, "heads": 2}},
    "cut": "block1",
}
TEXTS: dict[str, Any] = {
    **IMAGES,
    "model": {"roberta_small": {"vocabulary": 512, "layers": 1, "width": 16, "length": 32}},
    "cut": "embeddings",
}
TABLES: dict[str, Any] = {**IMAGES, "model": {"field_mlp": {"width": 4, "hidden": 16}}, "cut": "fields"}
BY_MODALITY = {"image": IMAGES, "text": TEXTS, "tabular": TABLES}
SMALLER: dict[str, dict[str, Any]] = {  # settings that make a data set small
    "imdb": {"length": 16, "vocabulary": 512},
    "celeba": {"size": 32},
    "lfw": {"size": 32},
    "criteo": {"rows": 500, "categories": 20},
}


def spec(name: str) -> Any:
    return {name: SMALLER[name]} if name in SMALLER else name


def setting(name: str) -> dict[str, Any]:
    """A run on this data set; skips the test if the data is not here."""
    part, mistakes = components.resolve("data", spec(name), "data")
    assert part is not None, mistakes
    try:
        data = load_data(part)
    except SplitbenchError as error:
        pytest.skip(f"{name} is not here: {error}")
    return {"data": spec(name), **BY_MODALITY[data.modality]}


def quick(name: str) -> dict[str, dict[str, Any]]:
    """An attack with a step or two in each of its phases."""
    attack: Attack = registry.load("attacks", name)()  # type: ignore[assignment]
    fewer = {phase: 2 for phase in attack.phases if getattr(attack, phase)}
    return {name: {**fewer, **({"batch": 4} if hasattr(attack, "batch") else {})}}
