"""ViT-Tiny."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge
from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, on_grid
from splitbench.core.model import Model
from splitbench.models._parts.shapes import image, whole_patches
from splitbench.models._timm.package import timm


@dataclass(frozen=True)
class ViTTiny(Model):
    """A plain vision transformer of width 192 with three heads.

    Touvron et al., "Training data-efficient image transformers", 2021, table 1 (DeiT-Ti).
    https://arxiv.org/abs/2012.12877
    CutMixSL and DP-CutMixSL cut it at `embed`: patch tokens with the class token first, positions added. CutMixSL
    has depth 6.
    Departs from the paper: patches of 4 by default, since 16 would leave four of a 32-pixel image.
    """

    tokens: ClassVar[str] = "norm_pre"

    patch: Annotated[int, Ge(1)] = 4  # side of a patch in pixels; must divide the image's
    depth: Annotated[int, Ge(1)] = 12  # transformer blocks; 6 in CutMixSL
    width: Annotated[int, Ge(1)] = 192  # of a token; a multiple of heads
    heads: Annotated[int, Ge(1)] = 3  # of attention

    @property
    def cuts(self) -> Mapping[str, str]:
        blocks = {f"block{i + 1}": f"blocks.{i}" for i in range(self.depth)}
        return {"embed": "norm_pre", **blocks, "norm": "norm", "pool": "head_drop"}

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        return on_grid(smashed, (sample[1] // self.patch, sample[2] // self.patch), prefix=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image(shape, "vit_tiny")
        whole_patches(height, width, self.patch, "vit_tiny")
        if self.width % self.heads:
            raise SplitbenchError(f"vit_tiny: width={self.width} is not a multiple of heads={self.heads}")
        network: nn.Module = timm.create_model(
            "vit_tiny_patch16_224",
            img_size=(height, width),
            patch_size=self.patch,
            in_chans=channels,
            num_classes=classes,
            depth=self.depth,
            embed_dim=self.width,
            num_heads=self.heads,
        )
        return network
