"""What a defense of images says to anything else."""

from __future__ import annotations

from collections.abc import Sequence

from splitbench.core.errors import SplitbenchError


def images_only(who: str, sample: Sequence[int], instead: str) -> None:
    """Raises unless `sample`, the shape of one input, is that of an image; unknown (empty) passes."""
    if sample and len(sample) != 3:
        raise SplitbenchError(f"{who} is for images, and a sample here has shape {tuple(sample)}; {instead}")
