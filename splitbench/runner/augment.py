"""What a client does to its images before a step of training, drawn anew for every sample from its own generator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


def augmented(x: Tensor, kinds: Sequence[str], margin: int, generator: Generator) -> Tensor:
    """Images (N, C, H, W), mirrored with a chance of one half and cut out of a black margin, as asked."""
    if "flip" in kinds:
        mirrored = torch.rand(len(x), generator=generator) < 0.5
        x = torch.where(mirrored.to(x.device)[:, None, None, None], x.flip(3), x)
    if "crop" in kinds:
        x = _cropped(x, margin, generator)
    return x


def _cropped(x: Tensor, margin: int, generator: Generator) -> Tensor:
    """A window of the image's own size from anywhere in the padded image: one gather for all of them."""
    count, channels, height, width = x.shape
    down, right = torch.randint(2 * margin + 1, (2, count, 1), generator=generator).to(x.device)
    rows = (down + torch.arange(height, device=x.device))[:, None, :, None]
    columns = (right + torch.arange(width, device=x.device))[:, None, None, :]
    sample = torch.arange(count, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[None, :, None, None]
    return F.pad(x, (margin,) * 4)[sample, channel, rows, columns]
