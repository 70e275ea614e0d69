"""What thop counts, beside our own count; where they differ, and why."""

from __future__ import annotations

import copy
import logging
import warnings
from typing import Any

import torch

from splitbench.edge.case import Scene
from splitbench.edge.trace import Numberless


def thop_macs(scene: Scene, batch: int) -> int | None:
    """MACs of the first client's layers forward, by thop; None if it is not installed or cannot count them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of distutils, which it still uses
            import thop
    except ImportError:
        return None
    # It prints to the log and hangs buffers on modules: on copies, and quietly.
    logging.getLogger("thop").setLevel(logging.ERROR)
    total = 0.0
    x: Any = scene.batch(batch)[0]
    model = scene.models[0]
    for part, owner in zip(model.stages, model.owners, strict=True):
        mine = copy.deepcopy(part).eval()
        try:
            with torch.no_grad(), Numberless():
                if owner.role == "client":
                    total += float(thop.profile(copy.deepcopy(mine), inputs=(x,), verbose=False)[0])
                x = mine(x)
        except Exception:  # whatever its hooks cannot do
            return None
    return round(total)


def difference(ours: int, theirs: int | None) -> str:
    """A sentence where the two differ by more than a hundredth."""
    if theirs is None or ours == theirs or abs(theirs - ours) <= 0.01 * max(ours, 1):
        return ""
    if theirs > ours:
        return "thop also counts normalisation, pooling and activations"
    return "thop does not see fused attention and products outside of layers"
