"""timm, imported so that it works beside any build of torch."""

from __future__ import annotations

import importlib

from splitbench.core.torchvision import declare_missing_operators

declare_missing_operators()
timm = importlib.import_module("timm")
