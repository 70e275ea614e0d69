"""The smallest sensible setting of each model: the same layers and cuts, fewer numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from splitbench.core.data import Field
from splitbench.core.model import Model, build_network
from splitbench.core.registry import load

TOKENS = 40
FIELDS = (Field("age"), Field("town", 5), Field("income"), Field("job", 3))

SETTINGS: dict[str, dict[str, Any]] = {
    "resnet18": {"width": 0.05},
    "resnet50": {"width": 0.05},
    "wide_resnet50_2": {"width": 0.05},
    "vgg16": {"width": 0.02, "hidden": 8, "grid": 1},
    "vit_tiny": {"depth": 2, "width": 12, "heads": 3, "patch": 8},
    "pit_tiny": {"patch": 8, "stride": 8},
    "roberta_base": {"vocabulary": TOKENS, "length": 8},
    "minilm": {"weights": "none"},
    "field_mlp": {"width": 3, "hidden": 5},
    "difm": {"width": 3, "heads": 2, "head_width": 2, "hidden": [6, 5]},
    "t2t_vit": {"depth": 2, "patch": 8, "width": 12, "token_width": 4},
    "roberta_small": {"vocabulary": TOKENS, "length": 8, "layers": 2, "width": 16},
}


def model(name: str, **settings: Any) -> Model:
    made = load("models", name)(**{**SETTINGS.get(name, {}), **settings})
    assert isinstance(made, Model)
    return made


def shape_for(model: Model) -> tuple[int, ...]:
    return {"text": (8,), "tabular": (len(FIELDS),)}.get(model.modality, (3, 32, 32))


def network_for(model: Model, classes: int) -> nn.Module:
    return build_network(model, shape_for(model), classes, FIELDS)


def batch_for(model: Model, size: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if model.modality == "text":
        return torch.randint(2, TOKENS, (size, *shape_for(model)), generator=generator)
    if model.modality == "tabular":
        columns = [
            torch.randint(field.categories, (size,), generator=generator).double()
            if field.categories
            else torch.randn(size, generator=generator, dtype=torch.float64)
            for field in FIELDS
        ]
        return torch.stack(columns, 1)
    return torch.rand(size, *shape_for(model), generator=generator, dtype=torch.float64)
