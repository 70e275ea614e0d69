"""timm, imported so that it works beside any build of torch.

timm imports torchvision, and a torchvision built for CUDA beside a CPU-only torch cannot load its operators and
then refuses to be imported at all ("operator torchvision::nms does not exist"). None of the networks here use
those operators, so declaring them, without an implementation, is enough.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import torch

_OPERATORS = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # a declaration lasts as long as its library object


def _declare_missing_operators() -> None:
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or "torchvision" in sys.modules:
        return
    for library in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            fragment = torch.library.Library("torchvision", "FRAGMENT")
            for name in _OPERATORS:
                fragment.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(fragment)


_declare_missing_operators()
timm = importlib.import_module("timm")
