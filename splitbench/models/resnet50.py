"""ResNet-50."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le
from torch import nn

from splitbench.core.model import Model
from splitbench.models._parts import resnet as _resnet


@dataclass(frozen=True)
class ResNet50(Model):
    """Fifty layers of bottleneck residual blocks.

    He et al., "Deep Residual Learning for Image Recognition", 2016, table 1. https://arxiv.org/abs/1512.03385
    What SEAL calls ResNet50 is `wide_resnet50_2`.
    Departs from the paper, as timm does: a block strides in its 3 x 3 convolution, and its last batch norm starts at
    zero.
    """

    width: Annotated[float, Gt(0), Le(4)] = 1.0  # channels of layer1 to layer4 relative to the paper; the stem keeps 64

    @property
    def cuts(self) -> Mapping[str, str]:
        return _resnet.CUTS

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _resnet.build("resnet50", shape, classes, self.width)
