"""LeNet-5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import nn

from splitbench.core.model import Model
from splitbench.models._parts.shapes import image

_LAYERS = ("conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "fc1", "relu3", "fc2", "relu4")


@dataclass(frozen=True)
class LeNet5(Model):
    """Two convolutions and three linear layers.

    LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998, figure 2.
    http://yann.lecun.com/exdb/publis/pdf/lecun-98.pdf
    DP-CutMixSL cuts it at `conv2` for its label inference; UnSplit's network for MNIST has 8 filters first.
    Departs from the paper: ReLU, max pooling, conv2 connected to every map and a linear output, as everybody has
    it now. Images below 32 pixels are padded to 32 in conv1, as in the paper.
    """

    filters: Annotated[int, Ge(1)] = 6  # output channels of conv1

    @property
    def cuts(self) -> Mapping[str, str]:
        return {name: name for name in _LAYERS if name != "flatten"}

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image(shape, "lenet5")
        margins = [max(0, (33 - side) // 2) for side in (height, width)]
        # Two unpadded 5 x 5 convolutions, each followed by a halving.
        rows, columns = (
            ((side + 2 * margin - 4) // 2 - 4) // 2 for side, margin in zip((height, width), margins, strict=True)
        )
        layers: tuple[nn.Module, ...] = (
            nn.Conv2d(channels, self.filters, 5, padding=(margins[0], margins[1])),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(self.filters, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * rows * columns, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        )
        network = nn.Sequential()
        for name, layer in zip(_LAYERS, layers, strict=True):
            network.add_module(name, layer)
        network.add_module("head", nn.Linear(84, classes))
        return network
