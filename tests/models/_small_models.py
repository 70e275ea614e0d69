"""The smallest sensible setting of each model: the same layers and cuts, fewer numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from splitbench.core.model import Model
from splitbench.core.registry import load

TOKENS = 40

SETTINGS: dict[str, dict[str, Any]] = {
    "resnet18": {"width": 0.05},
    "resnet50": {"width": 0.05},
    "wide_resnet50_2": {"width": 0.05},
    "vgg16": {"width": 0.02, "hidden": 8, "grid": 1},
    "vit_tiny": {"depth": 2, "width": 12, "heads": 3, "patch": 8},
    "pit_tiny": {"patch": 8, "stride": 8},
    "roberta_base": {"vocabulary": TOKENS, "length": 8},
    "roberta_small": {"vocabulary": TOKENS, "length": 8, "layers": 2, "width": 16},
}


def model(name: str, **settings: Any) -> Model:
    made = load("models", name)(**{**SETTINGS.get(name, {}), **settings})
    assert isinstance(made, Model)
    return made


def shape_for(model: Model) -> tuple[int, ...]:
    return (8,) if model.modality == "text" else (3, 32, 32)


def batch_for(model: Model, size: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if model.modality == "text":
        return torch.randint(2, TOKENS, (size, *shape_for(model)), generator=generator)
    return torch.rand(size, *shape_for(model), generator=generator, dtype=torch.float64)
