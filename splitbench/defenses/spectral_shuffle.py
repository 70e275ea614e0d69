from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.member import Batch
from splitbench.core.split import SplitModel
from splitbench.core.tokens import Reordered
from splitbench.defenses._shuffling.tokens import Shuffling, opened, places
from splitbench.methods.shuffling.orders import within_images
from splitbench.methods.shuffling.patches import unpatched
from splitbench.methods.shuffling.spectrum import spectral_patches


@dataclass(frozen=True)
class SpectralShuffle(Shuffling):
    """Send patches of the image's spectrum in a random order; the network begins at the server.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, algorithm 1 (PS+).
    https://github.com/dixiyao/PatchShuffling
    Real and imaginary parts are channels of their own. R1 transforms the image, as figure 4 shows it and table VI
    counts it. R2 transforms what the frozen patch embedding makes of it, folded back into an image of three channels,
    as algorithm 1 says and the public code does; a token then has to hold 3 p^2 values. Where the model is cut makes
    no difference: all of its blocks are the server's, behind a new embedding of the spectral patches (`positions`: with
    positions of its own, as the public code adds; the paper removes them).
    """

    reading: Literal["R1", "R2"] = "R1"  # what is transformed: the image, or the embedded patches folded back
    compress: bool = True  # the server takes signed logarithms of a spectrum, which spans orders of magnitude
    positions: bool = False  # the server adds learned positions to the tokens as they arrive, as the public code does

    def sends(self, layout: Layout) -> Layout:
        rows, columns = self._sent
        return Layout("tokens", (rows * columns, self._width), 0, (rows, columns))

    @property
    def _grid(self) -> tuple[int, int]:
        layout = self.context.layout
        places(self.context, self.called)
        if len(self.context.sample) != 3 or layout is None or layout.grid is None:
            raise SplitbenchError(f"{self.called} transforms images, and the tokens here do not lie on one")
        return layout.grid

    @property
    def _sent(self) -> tuple[int, int]:
        """Rows and columns of the patches that leave the client."""
        return self._grid

    @property
    def _width(self) -> int:
        """Values of a spectral patch."""
        rows, columns = self._grid
        channels, height, width = self.context.sample
        return 2 * (channels if self.reading == "R1" else 3) * (height // rows) * (width // columns)

    def prepare(self, model: SplitModel) -> SplitModel:
        if len(model.stages) < 2:
            return model
        rows, columns = self._grid
        layout = self.context.layout
        assert layout is not None
        front, back = opened(model.stages[0], self.context)
        if self.reading == "R2":
            if layout.channels * 2 != self._width:
                raise SplitbenchError(
                    f"{self.called} in the reading R2 folds a token of 3 x p x p values; patches of "
                    f"{self.context.sample[1] // rows} pixels need a width of {self._width // 2}, the model has "
                    f"{layout.channels}. Set its width, or take reading=R1"
                )
            shape = (3, *self.context.sample[1:])
            client: nn.Module = nn.Sequential(
                front, Folded(shape, rows, columns, layout.prefix), self._spectrum(rows, columns)
            )
        else:
            client = self._spectrum(rows, columns)
        embedding = SpectralEmbedding(
            self._width, layout.channels, math.prod(self._sent), layout.prefix, self.compress, self.positions
        )
        server = nn.Sequential(embedding, back, model.stages[1])
        start = Reordered(client, nn.Identity()).requires_grad_(False)
        return replace(model, stages=(start, server, *model.stages[2:]))

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        if self.context.layout is None:
            return batch
        return replace(batch, order=within_images(len(batch), math.prod(self._sent), generator))

    def _spectrum(self, rows: int, columns: int) -> nn.Module:
        return Spectrum(rows, columns)

    @property
    def prefix(self) -> int:
        return 0  # a class token is the server's


class Spectrum(nn.Module):
    """Images to patches of their spectrum."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns

    def forward(self, x: Tensor) -> Tensor:
        return spectral_patches(x, self.rows, self.columns)


class Folded(nn.Module):
    """Tokens of 3 p^2 values laid out as an image."""

    def __init__(self, shape: tuple[int, ...], rows: int, columns: int, prefix: int) -> None:
        super().__init__()
        self.shape, self.rows, self.columns, self.prefix = shape, rows, columns, prefix

    def forward(self, tokens: Tensor) -> Tensor:
        return unpatched(tokens[:, self.prefix :], self.shape, self.rows, self.columns)


class SpectralEmbedding(nn.Module):
    """The server's first layer: spectral patches to tokens as the network has them, with a class token of its own."""

    def __init__(self, values: int, width: int, count: int, prefix: int, compress: bool, positions: bool) -> None:
        super().__init__()
        self.compress = compress
        self.embed = nn.Linear(values, width)
        self.ahead = nn.Parameter(torch.zeros(1, prefix, width))
        self.positions = nn.Parameter(torch.zeros(1, count, width)) if positions else None

    def forward(self, patches: Tensor) -> Tensor:
        if self.compress:
            patches = patches.sign() * patches.abs().log1p()
        tokens = self.embed(patches)
        if self.positions is not None:
            tokens = tokens + self.positions
        return torch.cat((self.ahead.expand(len(tokens), -1, -1), tokens), 1)
