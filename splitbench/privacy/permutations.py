"""How many orders of patches an adversary would have to try, and how few comparisons it needs instead.

Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, section IV and its
definition 2, sigma-privacy: any two orders are equally likely to have produced what was sent. Equations 7 and 8 count
the orders. https://github.com/dixiyao/PatchShuffling
The counts assume that an order shows only when it is tried whole. Patches that were neighbours continue each other, so
that whoever merges them by their borders compares pairs: a number that grows with the square of the patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from splitbench.core.errors import Mistake, SplitbenchError

_ROUNDING = 1e-6  # of differences of logarithms


def log10_permutations(patches: int) -> float:
    """Of N!, the orders of the patches of one image (patch and spectral shuffling)."""
    _counted(patches=patches)
    return _log10_factorial(patches)


def kept(patches: int, k: float) -> int:
    """floor(k N): the patches that batch shuffling leaves with their image."""
    _counted(patches=patches)
    if not 0 < k < 1:
        raise SplitbenchError([Mistake("k", f"expected a share between 0 and 1, both excluded, got {k:g}")])
    # 0.29 * 100 is 28.999999999999996.
    return math.floor(k * patches + 1e-9)


def batch(patches: int, batch: int, k: float) -> float:
    """log10 of equation 7, the orders of a batch of B: each image's kept ones, in order, and those of the pool."""
    _counted(batch=batch)
    leave = patches - kept(patches, k)
    return batch * (_log10_factorial(patches) - _log10_factorial(leave)) + _log10_factorial(batch * leave)


def containing_target(patches: int, batch: int, k: float) -> float:
    """log10 of equation 8, those of them that have all patches of one given image in their places."""
    _counted(batch=batch)
    leave = patches - kept(patches, k)
    others = batch - 1
    return others * (_log10_factorial(patches) - _log10_factorial(leave)) + _log10_factorial(others * leave)


def share(patches: int, batch_size: int, k: float) -> float:
    """log10 of the share of the orders that recover a given image: equation 8 over equation 7."""
    return containing_target(patches, batch_size, k) - batch(patches, batch_size, k)


def comparisons(patches: int, batch: int = 1) -> int:
    """How many borders a solver compares: every ordered pair of patches, side by side and one below the other.

    Of batch shuffling it compares those of the whole batch, and need not know which were kept.
    """
    _counted(patches=patches, batch=batch)
    return 2 * patches * batch * (patches * batch - 1)


def bits(log10: float) -> float:
    """The length in bits of the choice among so many, given as log10."""
    return log10 / math.log10(2)


@dataclass(frozen=True)
class Account:
    """The paper's counts, as log10, beside the border comparisons of a jigsaw solver."""

    patches: int
    batch: int
    k: float
    kept: int  # floor(k N)
    permutations: float  # N!
    equation_7: float
    equation_8: float
    share: float  # equation 8 over equation 7
    bits: float  # of an order of one image
    batch_bits: float  # of an order of the batch
    comparisons: int  # of a solver, for one image
    batch_comparisons: int  # for the whole batch

    @classmethod
    def of(cls, patches: int, batch_size: int, k: float) -> Account:
        """Every count of a batch of B images of N patches."""
        one, seven = log10_permutations(patches), batch(patches, batch_size, k)
        return cls(
            patches=patches,
            batch=batch_size,
            k=k,
            kept=kept(patches, k),
            permutations=one,
            equation_7=seven,
            equation_8=containing_target(patches, batch_size, k),
            share=share(patches, batch_size, k),
            bits=bits(one),
            batch_bits=bits(seven),
            comparisons=comparisons(patches),
            batch_comparisons=comparisons(patches, batch_size),
        )

    @property
    def more_permutations(self) -> bool:
        """The paper's claim that batch shuffling has more orders than patch shuffling (for one image, as many)."""
        return self.equation_7 > self.permutations + _ROUNDING

    @property
    def smaller_share(self) -> bool:
        """Its claim that the share with the target is smaller than 1 / N!."""
        return self.share < -self.permutations - _ROUNDING


def _log10_factorial(count: int) -> float:
    return math.lgamma(count + 1) / math.log(10)


def _counted(**counts: int) -> None:
    mistakes = [Mistake(name, f"expected at least 1, got {count}") for name, count in counts.items() if count < 1]
    if mistakes:
        raise SplitbenchError(mistakes)
