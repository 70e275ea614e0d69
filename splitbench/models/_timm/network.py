"""Any network that timm knows by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, by_rank, on_grid, tiling
from splitbench.core.split import output_shape
from splitbench.models._adopting.adopted import Adopted
from splitbench.models._parts import weights as _weights
from splitbench.models._parts.shapes import image
from splitbench.models._timm.package import timm


@dataclass(frozen=True)
class TimmNetwork(Adopted):
    """One of timm's networks, for images of the data's size where its layers depend on it."""

    architecture: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    weights: str = ""  # pretrained weights: a .safetensors file or a folder that holds one; empty: random

    @property
    def published(self) -> Any:
        """What timm says of the network: its input size, the name of its classifier."""
        return timm.get_pretrained_cfg(self.architecture) or timm.models.PretrainedCfg()

    def usual(self) -> tuple[int, ...]:
        size: tuple[int, ...] = self.published.input_size
        return size

    def make(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        channels, height, width = image(shape, self.architecture)
        options = {"img_size": (height, width)} if self.published.fixed_input_size else {}
        try:
            network: nn.Module = timm.create_model(
                self.architecture, pretrained=False, in_chans=channels, num_classes=classes, **options
            )
        except (TypeError, ValueError, AssertionError, RuntimeError, ArithmeticError) as error:
            raise SplitbenchError(
                f"timm cannot make {self.architecture} for samples of shape {shape}: {error}. "
                "Choose larger images or another network."
            ) from error
        return network

    def try_out(self, network: nn.Module, shape: tuple[int, ...]) -> None:
        try:
            output_shape(network, shape, torch.float32)
        except (RuntimeError, AssertionError) as error:
            raise SplitbenchError(
                f"{self.architecture} cannot take samples of shape {shape}: {error}. "
                "Choose larger images or another network."
            ) from error

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        grid = getattr(getattr(network, "patch_embed", None), "grid_size", None) or tiling(
            math.prod(smashed[:1]), sample
        )
        prefix = int(getattr(network, "num_prefix_tokens", 0))
        return on_grid(smashed, (grid[0], grid[1]), prefix) if grid else by_rank(smashed)

    def build(self, shape: tuple[int, ...], classes: int, fields: Sequence[Field] = ()) -> nn.Module:
        network = super().build(shape, classes)
        if self.weights:
            heads = self.published.classifier or ()
            heads = (heads,) if isinstance(heads, str) else heads
            _weights.load(network, self.weights, spare=tuple(f"{head}." for head in heads))
        return network
