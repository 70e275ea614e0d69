"""PiT-Tiny."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge
from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank
from splitbench.core.model import Model
from splitbench.models._parts.shapes import image
from splitbench.models._timm.package import timm


@dataclass(frozen=True)
class PiTTiny(Model):
    """A vision transformer that pools its grid of tokens between three stages.

    Heo et al., "Rethinking Spatial Dimensions of Vision Transformers", 2021, table 1. https://arxiv.org/abs/2103.16302
    CutMixSL and DP-CutMixSL cut it at `embed`: the grid of patch tokens with positions, (C, H, W); the class token
    is the server's. Between stages the grid and the class token travel as a pair, so there is no cut there.
    Departs from the paper: patches of 4 that do not overlap by default, where the paper has 16 every 8 pixels of 224.
    """

    patch: Annotated[int, Ge(1)] = 4  # side of a patch in pixels; 16 in the paper
    stride: Annotated[int, Ge(1)] = 4  # pixels from one patch to the next; 8 in the paper

    @property
    def cuts(self) -> Mapping[str, str]:
        return {"embed": "pos_drop", "norm": "norm", "pool": "head_drop"}

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        # What leaves the last stage as tokens is the class token alone: it stands for no place.
        return Layout("tokens", smashed, prefix=smashed[0]) if len(smashed) == 2 else by_rank(smashed)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image(shape, "pit_tiny")
        if self.patch > min(height, width):
            raise SplitbenchError(f"pit_tiny: no patch of {self.patch} fits {height} x {width} pixels; lower patch")
        network: nn.Module = timm.create_model(
            "pit_ti_224",
            img_size=(height, width),
            patch_size=self.patch,
            stride=self.stride,
            in_chans=channels,
            num_classes=classes,
        )
        return network
