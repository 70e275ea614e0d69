"""VGG-16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import nn

from splitbench.core.model import Model
from splitbench.models._parts.shapes import image

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions
_CLASSIFIER = ("fc1", "relu14", "drop1", "fc2", "relu15", "drop2")


def _plan(width: float) -> dict[str, int]:
    """The layers before the classifier, each with its output channels."""
    plan: dict[str, int] = {}
    convolutions = 0
    for block, (channels, depth) in enumerate(_BLOCKS, start=1):
        # The first block keeps its 64 channels, so that a narrow network still has the papers' client.
        out = channels if block == 1 else max(4, round(channels * width))
        for _ in range(depth):
            convolutions += 1
            plan |= {f"conv{convolutions}": out, f"relu{convolutions}": out}
        plan[f"pool{block}"] = out
    return plan


@dataclass(frozen=True)
class VGG16(Model):
    """Thirteen 3 x 3 convolutions in five blocks, each ending in a halving, and three linear layers.

    Simonyan and Zisserman, "Very Deep Convolutional Networks", 2015, table 1, column D.
    https://arxiv.org/abs/1409.1556
    CutMixSL and DP-CutMixSL cut it after two convolutions and one pooling: `pool1`.
    Departs from the paper: features are averaged to a grid x grid map before the first linear layer, so that any
    image will do; below 32 pixels, where five halvings would leave nothing, pooling rounds up.
    """

    width: Annotated[float, Gt(0), Le(4)] = 1.0  # channels of blocks 2 to 5 relative to the paper; the first keeps 64
    hidden: Annotated[int, Ge(1)] = 4096  # width of the two hidden linear layers
    grid: Annotated[int, Ge(1)] = 7  # side of the map given to the linear layers; 1 suits images of 32 pixels
    dropout: Annotated[float, Ge(0), Le(1)] = 0.5  # after each hidden linear layer

    @property
    def cuts(self) -> Mapping[str, str]:
        features = {name: f"features.{name}" for name in _plan(self.width)}
        return {**features, **{name: f"classifier.{name}" for name in _CLASSIFIER}}

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image(shape, "vgg16")
        plan = _plan(self.width)
        network = nn.Sequential()
        network.add_module("features", _features(plan, channels, rounds_up=min(height, width) < 32))
        network.add_module("average", nn.AdaptiveAvgPool2d(self.grid))
        network.add_module("flatten", nn.Flatten())
        network.add_module("classifier", self._classifier(plan["pool5"], classes))
        return network

    def _classifier(self, channels: int, classes: int) -> nn.Sequential:
        first, second, head = (
            nn.Linear(channels * self.grid**2, self.hidden),
            nn.Linear(self.hidden, self.hidden),
            nn.Linear(self.hidden, classes),
        )
        for linear in (first, second, head):
            nn.init.zeros_(linear.bias)
        nn.init.kaiming_normal_(first.weight, nonlinearity="relu")
        nn.init.kaiming_normal_(second.weight, nonlinearity="relu")
        nn.init.normal_(head.weight, std=0.01)
        layers: tuple[nn.Module, ...] = (
            first,
            nn.ReLU(inplace=True),
            nn.Dropout(self.dropout),
            second,
            nn.ReLU(inplace=True),
            nn.Dropout(self.dropout),
        )
        classifier = nn.Sequential()
        for name, layer in zip(_CLASSIFIER, layers, strict=True):
            classifier.add_module(name, layer)
        classifier.add_module("head", head)
        return classifier


def _features(plan: Mapping[str, int], channels: int, rounds_up: bool) -> nn.Sequential:
    features = nn.Sequential()
    for name, width in plan.items():
        if name.startswith("conv"):
            layer = nn.Conv2d(channels, width, 3, padding=1)
            # Without batch norm, torch's default initialisation leaves the output of so deep a network constant.
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            features.add_module(name, layer)
            channels = width
        elif name.startswith("relu"):
            features.add_module(name, nn.ReLU(inplace=True))
        else:
            features.add_module(name, nn.MaxPool2d(2, ceil_mode=rounds_up))
    return features
