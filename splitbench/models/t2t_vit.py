"""Tokens-to-Token ViT."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Lt
from torch import nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout, on_grid
from splitbench.core.model import Model
from splitbench.models._parts import weights as _weights
from splitbench.models._parts.shapes import image
from splitbench.models._tokens_to_token.network import T2TNetwork, TokensToToken

# Blocks at most, and the width, heads and MLP ratio of the published networks of that depth.
_PUBLISHED = ((12, 256, 4, 2), (14, 384, 6, 3), (19, 448, 7, 3), (24, 512, 8, 3))
# All three stages keep their windows of 7, 3 and 3, so they overlap, and published weights fit, at each of these.
_STRIDES = {4: (4, 1, 1), 8: (4, 2, 1), 16: (4, 2, 2)}


@dataclass(frozen=True)
class T2TViT(Model):
    """A vision transformer whose tokens come from overlapping windows, restructured twice.

    Yuan et al., "Tokens-to-Token ViT", 2021, section 3 and table 1. https://arxiv.org/abs/2101.11986
    Patch shuffling has `patch` 16 and `depth` 24 and cuts it at `embed` or `block1`. Positions are fixed sinusoids.
    Departs from the paper: attention scores are divided by the root of the whole width, as in the checkpoints its
    authors published; no stochastic depth; patches of 4 by default, since 16 would leave four of a 32-pixel image.
    Below 16 the later soft splits take smaller strides.
    """

    tokens: ClassVar[str] = "norm_pre"
    reads: ClassVar[tuple[str, ...]] = ("weights",)

    depth: Annotated[int, Ge(1)] = 7  # transformer blocks: 7, 10, 12, 14, 19 or 24 as published
    patch: Literal[4, 8, 16] = 4  # pixels from one token to the next; must divide the image's sides
    token_layers: Literal["performer", "transformer"] = "performer"  # what restructures tokens between soft splits
    width: Annotated[int, Ge(0)] = 0  # of a token, 64 for each head; 0: as published at this depth or the next
    token_width: Annotated[int, Ge(2)] = 64  # of a token between soft splits
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.1  # in the performer, while it is trained
    weights: str = ""  # pretrained weights: a .safetensors file or a folder that holds one; empty: random

    @property
    def cuts(self) -> Mapping[str, str]:
        blocks = {f"block{i + 1}": f"blocks.{i}" for i in range(self.depth)}
        return {"embed": "norm_pre", **blocks, "norm": "norm", "pool": "pool"}

    def layout(self, cut: str, network: nn.Module, smashed: tuple[int, ...], sample: tuple[int, ...]) -> Layout:
        return on_grid(smashed, (sample[1] // self.patch, sample[2] // self.patch), prefix=1)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels, height, width = image(shape, "t2t_vit")
        if height % self.patch or width % self.patch:
            fitting = [patch for patch in _STRIDES if height % patch == width % patch == 0]
            hope = f"set patch to {' or '.join(map(str, fitting))}" if fitting else "choose images of another size"
            raise SplitbenchError(f"t2t_vit: patches of {self.patch} do not tile {height} x {width} pixels; {hope}")
        sizes = next((sizes for most, *sizes in _PUBLISHED if self.depth <= most), _PUBLISHED[-1][1:])
        token, heads, ratio = sizes
        if self.width:
            token, heads = self.width, max(1, self.width // 64)
        if token % heads:
            raise SplitbenchError(f"t2t_vit: width={token} is not a multiple of its {heads} heads, one for every 64")
        performer = self.token_layers == "performer"
        tokens = TokensToToken(
            (channels, height, width), _STRIDES[self.patch], performer, self.token_width, token, self.dropout
        )
        network = T2TNetwork(tokens, self.depth, token, heads, ratio, classes)
        if self.weights and not network.cls_token.is_meta:
            # Positions are a formula, so those of another image size are no loss.
            _weights.load(network, self.weights, _ours, spare=("head.", "pos_embed"))
        return network


def _ours(theirs: str) -> str:
    """A parameter's name in a published checkpoint, as it is called here."""
    name = theirs.removeprefix("module.")
    name = re.sub(r"^(tokens_to_token\.attention\d)\.attn\.", r"\1.", name)
    return re.sub(r"\.mlp\.([02])\.", lambda found: f".mlp.fc{1 + int(found[1]) // 2}.", name)
