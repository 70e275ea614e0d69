from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.defenses.spectral_shuffle import SpectralShuffle, Spectrum


@dataclass(frozen=True)
class HalfSpectralShuffle(SpectralShuffle):
    """Send the shuffled patches of half of the image's spectrum, in which no patch tells the place of another.

    A countermeasure beside Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM
    2022, whose PS+ sends all of it. https://github.com/dixiyao/PatchShuffling
    Not of the paper. Values of a real image at opposite frequencies are conjugate, so that one half says all that the
    other does, and having both says how patches lie to each other. Here only the rows of patches from frequency zero on
    are sent: half as many tokens. Lost is the row of the highest frequency, which counts as negative; of the symmetry
    only that within the row of frequency zero is left.
    """

    @property
    def _sent(self) -> tuple[int, int]:
        rows, columns = self._grid
        if rows % 2:
            raise SplitbenchError(
                "half_spectral_shuffle sends the rows of patches from frequency zero on, and needs an even number of "
                f"rows; here are {rows}. Take another patch size, or spectral_shuffle"
            )
        return rows // 2, columns

    def _spectrum(self, rows: int, columns: int) -> nn.Module:
        return LowerHalf(rows, columns)


class LowerHalf(Spectrum):
    """Images to the patches of the lower half of their spectrum, rows from frequency zero on."""

    def forward(self, x: Tensor) -> Tensor:
        patches = super().forward(x)
        return patches[:, patches.shape[1] // 2 :]
