"""ViT-Tiny."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, on_grid
from splitbench.core.model import Model
from splitbench.models._parts.shapes import image, whole_patches
from splitbench.models._timm.package import timm

_MEAN, _DEVIATION = 0.5, 0.25  # of pixels, roughly, in any data set of images


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
    positions: Literal["random", "sincos"] = "random"  # how learned positions begin; sincos suits few images
    centred: bool = False  # the embedding begins as for pixels of mean 0.5 and deviation 0.25, not of [0, 1]

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
        if self.positions == "sincos":
            _begin_with_waves(network, height // self.patch, width // self.patch, self.width)
        if self.centred:
            _begin_centred(network.get_submodule("patch_embed.proj"))
        return network


@torch.no_grad()
def _begin_with_waves(network: Any, rows: int, columns: int, width: int) -> None:
    """Beyer, Zhai and Kolesnikov, "Better plain ViT baselines for ImageNet-1k", 2022. https://arxiv.org/abs/2205.01580"""
    if width % 4:
        raise SplitbenchError(f"vit_tiny: positions=sincos needs a width that is a multiple of 4, not {width}")
    waves = timm.layers.build_sincos2d_pos_embed([rows, columns], width)
    network.pos_embed[:, 1:] = waves.to(network.pos_embed)


@torch.no_grad()
def _begin_centred(embedding: nn.Module) -> None:
    """A linear layer takes the mean off as well as a step before it would, and stays one layer."""
    assert isinstance(embedding, nn.Conv2d)
    assert embedding.bias is not None
    embedding.weight.mul_(1 / _DEVIATION)
    embedding.bias.copy_(-_MEAN * embedding.weight.sum((1, 2, 3)))
