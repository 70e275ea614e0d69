"""Crops of a centred spectrum, as they lie and as they are sent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.core.layout import Layout, tiling
from splitbench.methods.shuffling.spectrum import from_spectral_patches, spectral_patches


@dataclass(frozen=True)
class Crops:
    """`rows` x `columns` crops of `height` x `width` frequencies each, of spectra of so many channels.

    If `half`, only the lower half of the rows is sent, from frequency zero on.
    """

    channels: int
    rows: int
    columns: int
    height: int
    width: int
    half: bool = False

    @classmethod
    def of(cls, layout: Layout, sample: tuple[int, ...], channels: int) -> Crops | None:
        """As tokens of this layout would be crops of the spectrum of an image of so many channels, if they can be."""
        whole = cls._cut(layout.grid or tiling(layout.places, sample), layout, sample, channels)
        if whole or layout.prefix:  # which a client that begins with a spectrum does not have
            return whole
        sent = layout.grid
        grid = (2 * sent[0], sent[1]) if sent else tiling(2 * layout.places, sample)
        return cls._cut(grid, layout, sample, channels, half=True)

    @classmethod
    def _cut(
        cls, grid: tuple[int, int] | None, layout: Layout, sample: tuple[int, ...], channels: int, half: bool = False
    ) -> Crops | None:
        if layout.kind != "tokens" or grid is None or len(sample) != 3 or sample[1] % grid[0] or sample[2] % grid[1]:
            return None
        found = cls(channels, *grid, sample[1] // grid[0], sample[2] // grid[1], half)
        return found if found.values == layout.channels else None

    @property
    def places(self) -> int:
        """How many crops of an image are sent."""
        return self.rows * self.columns // (2 if self.half else 1)

    @property
    def values(self) -> int:
        """Of a token: real channels, then imaginary."""
        return 2 * self.channels * self.height * self.width

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of the image whose spectrum it is."""
        return self.channels, self.rows * self.height, self.columns * self.width

    @property
    def tied(self) -> bool:
        """Whether symmetry ties each crop to three others.

        Not where a side is odd, a crop one frequency thin, or the other half not sent.
        """
        return not self.half and self.shape[1] % 2 == self.shape[2] % 2 == 0 and min(self.height, self.width) > 1

    @property
    def centre(self) -> tuple[int, int, int, int]:
        """Where frequency zero is: row and column of the crop, and inside of the crop."""
        (a, u), (b, v) = divmod(self.shape[1] // 2, self.height), divmod(self.shape[2] // 2, self.width)
        return a, b, u, v

    @property
    def shifts(self) -> list[tuple[int, int]]:
        """Rows and columns of the grid by which all crops can be moved without their symmetry being broken."""
        rows, columns = ((0, side // 2) if side % 2 == 0 else (0,) for side in (self.rows, self.columns))
        return [(a, b) for a in rows for b in columns]

    def shifted(self, tokens: Tensor, by: tuple[int, int]) -> Tensor:
        """Tokens (N, L, D) moved around the edges of the grid."""
        return tokens.reshape(-1, self.rows, self.columns, tokens.shape[2]).roll(by, (1, 2)).flatten(1, 2)

    def complex(self, tokens: Tensor) -> Tensor:
        """Tokens (..., 2 C p q) as (..., C, p, q)."""
        parts = tokens.float().reshape(*tokens.shape[:-1], 2 * self.channels, self.height, self.width)
        real, imaginary = parts.chunk(2, -3)
        return torch.complex(real.contiguous(), imaginary.contiguous())

    def sent(self, x: Tensor) -> Tensor:
        """Of images (N, C, H, W) the tokens (N, L, D), each in its place."""
        return spectral_patches(x, self.rows, self.columns)[:, -self.places :]

    def images(self, tokens: Tensor) -> Tensor:
        """Those of which the tokens (N, L, 2 C p q), each in its place, are the spectra.

        Of a client that kept back a frequency, the opposite one says what it was: where one of the two is exactly
        zero it is made the other's conjugate.
        """
        if self.half:
            tokens = torch.cat((torch.zeros_like(tokens), tokens), 1)
        lost = tokens.flatten(1) == 0
        if bool((lost.float().mean(1) > 0.2).any()):
            tokens = self._completed(tokens)
        return from_spectral_patches(tokens, self.shape, self.rows, self.columns)

    def spectra(self, tokens: Tensor) -> Tensor:
        """(N, C, H, W), complex, of tokens in their places."""
        z = self.complex(tokens)  # (N, L, C, p, q)
        tiles = z.view(len(z), self.rows, self.columns, *z.shape[2:]).permute(0, 3, 1, 4, 2, 5)
        return tiles.reshape(len(z), *self.shape)

    def tokens(self, spectra: Tensor) -> Tensor:
        """The inverse of `spectra`."""
        tiles = spectra.reshape(-1, self.channels, self.rows, self.height, self.columns, self.width)
        z = tiles.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
        return torch.cat((z.real, z.imag), 2).flatten(2)

    def asymmetry(self, tokens: Tensor) -> Tensor:
        """(N,): the share of the energy that the spectrum of a real image could not have."""
        spectra = self.spectra(tokens)
        wrong = (spectra - opposite(spectra)).abs().square().sum((1, 2, 3))
        return wrong / (4 * spectra.abs().square().sum((1, 2, 3))).clamp(min=1e-30)

    def _completed(self, tokens: Tensor) -> Tensor:
        spectra = self.spectra(tokens)
        return self.tokens(torch.where(spectra == 0, opposite(spectra), spectra))


def opposite(spectra: Tensor) -> Tensor:
    """(N, C, H, W): for each frequency the conjugate of the opposite one; of a real image the two are equal."""
    height, width = spectra.shape[-2:]
    # Centred, frequency zero is at H // 2: the opposite of k is 2 (H // 2) - k.
    rolled = spectra.flip((-2, -1)).roll((1 - height % 2, 1 - width % 2), (-2, -1))
    return rolled.conj().resolve_conj()
