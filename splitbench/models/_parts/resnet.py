"""What the residual networks share: timm's network, narrowed if asked, and the places it can be cut."""

from __future__ import annotations

from types import MappingProxyType

from torch import nn

from splitbench.models._parts.shapes import image
from splitbench.models._timm.package import timm

CUTS = MappingProxyType(
    {
        "stem": "bn1",  # conv1 + bn1: a linear map, SEAL's client
        "relu": "act1",
        "maxpool": "maxpool",
        "layer1": "layer1",
        "layer2": "layer2",
        "layer3": "layer3",
        "layer4": "layer4",
        "pool": "global_pool",
    }
)


def build(name: str, shape: tuple[int, ...], classes: int, width: float) -> nn.Module:
    channels, _, _ = image(shape, name)
    # The stem keeps its 64 channels, so that a narrow network still has the papers' client.
    widths = tuple(max(4, round(full * width)) for full in (64, 128, 256, 512))
    network: nn.Module = timm.create_model(name, in_chans=channels, num_classes=classes, channels=widths)
    return network
