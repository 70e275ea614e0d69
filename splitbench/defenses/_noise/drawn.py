"""Noise that is the same on every device."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def normal_like(z: Tensor, generator: Generator | None) -> Tensor:
    """Standard normal noise of the shape, type and device of `z`, drawn where the generator lives."""
    device = generator.device if generator is not None else z.device
    return torch.randn(z.shape, dtype=z.dtype, device=device, generator=generator).to(z.device)
