"""ResNet-18."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le
from torch import nn

from splitbench.core.model import Model
from splitbench.models._parts import resnet as _resnet


@dataclass(frozen=True)
class ResNet18(Model):
    """Eighteen layers of basic residual blocks.

    He et al., "Deep Residual Learning for Image Recognition", 2016, table 1. https://arxiv.org/abs/1512.03385
    SEAL's client is conv1 and bn1, the cut `stem`: 9,536 of 11,181,642 parameters for 10 classes (its table 4).
    Departs from the paper: batch norm at the end of each block starts at zero, as timm has it.
    """

    width: Annotated[float, Gt(0), Le(4)] = 1.0  # channels of layer1 to layer4 relative to the paper; the stem keeps 64

    @property
    def cuts(self) -> Mapping[str, str]:
        return _resnet.CUTS

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _resnet.build("resnet18", shape, classes, self.width)
