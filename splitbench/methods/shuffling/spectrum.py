"""The spectrum of an image, cropped into patches as the image would be."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from splitbench.methods.shuffling.patches import patched, unpatched


def spectral_patches(x: Tensor, rows: int, columns: int) -> Tensor:
    """Images (N, C, H, W) as patches of their centred spectrum, (N, L, 2 * C * p * q): real channels, then imaginary.

    The transform is orthonormal, so that noise on a spectrum is noise of the same strength on the image.
    """
    spectrum = torch.fft.fftshift(torch.fft.fft2(x, norm="ortho"), dim=(-2, -1))
    return patched(torch.cat((spectrum.real, spectrum.imag), 1), rows, columns)


def from_spectral_patches(tokens: Tensor, shape: Sequence[int], rows: int, columns: int) -> Tensor:
    """The images of `shape` (C, H, W) whose spectral patches these are; what is no image's is projected away."""
    channels, height, width = shape
    real, imaginary = unpatched(tokens, (2 * channels, height, width), rows, columns).chunk(2, 1)
    spectrum = torch.fft.ifftshift(torch.complex(real.contiguous(), imaginary.contiguous()), dim=(-2, -1))
    image: Tensor = torch.fft.ifft2(spectrum, norm="ortho").real
    return image
