"""torchvision beside any build of torch.

timm and transformers import torchvision, and a torchvision built for CUDA beside a CPU-only torch cannot load its
operators and then refuses to be imported at all ("operator torchvision::nms does not exist"). None of the networks
here use those operators, so declaring them, without an implementation, is enough.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

import torch

_OPERATORS = ("nms", "qnms")


@functools.cache
def declare_missing_operators() -> torch.library.Library | None:
    """To be called before the first import of torchvision. A declaration lasts as long as what is returned."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or "torchvision" in sys.modules:
        return None
    for library in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        except OSError:
            fragment = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
            for name in _OPERATORS:
                schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                fragment.define(schema)  # type: ignore[no-untyped-call]
            return fragment
    return None
