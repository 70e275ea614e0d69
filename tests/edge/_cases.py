"""Cases that many tests profile."""

from __future__ import annotations

from typing import Any

from splitbench.edge.ask import ask
from splitbench.edge.case import Case


def case(model: Any = "lenet5", cut: str = "conv2", *defenses: Any, shape: str = "1x28x28", **more: Any) -> Case:
    batch = more.pop("batch", 8)
    training = {"batch": batch, **more.pop("training", {})}
    return ask(model=model, cut=cut, defenses=defenses, shape=shape, training=training, **more)
