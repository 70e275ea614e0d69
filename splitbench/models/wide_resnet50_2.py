"""Wide ResNet-50-2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt, Le
from torch import nn

from splitbench.core.model import Model
from splitbench.models._parts import resnet as _resnet


@dataclass(frozen=True)
class WideResNet502(Model):
    """ResNet-50 with bottlenecks twice as wide.

    Zagoruyko and Komodakis, "Wide Residual Networks", 2016. https://arxiv.org/abs/1605.07146
    SEAL calls it ResNet50: its table 4 counts 67,039,140 parameters, which are those of this network with 100
    classes, cut at `stem`.
    Departs from the paper, as timm does: a block strides in its 3 x 3 convolution, and its last batch norm starts at
    zero.
    """

    width: Annotated[float, Gt(0), Le(4)] = 1.0  # channels of layer1 to layer4 relative to the paper; the stem keeps 64

    @property
    def cuts(self) -> Mapping[str, str]:
        return _resnet.CUTS

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _resnet.build("wide_resnet50_2", shape, classes, self.width)
