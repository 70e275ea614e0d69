"""Uniform permutations of tokens, drawn for a whole batch at once.

An order is (N, L): for each place of each sample, which of the batch's N * L tokens is put there.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor


def within_images(count: int, tokens: int, generator: Generator | None) -> Tensor:
    """Each image's tokens in an order of their own (patch shuffling, algorithm 1)."""
    return _shuffled(count, tokens, generator) + _first(count, tokens)


def across_batch(count: int, tokens: int, kept: int, generator: Generator | None, last_shuffle: bool = True) -> Tensor:
    """Batch shuffling, algorithm 2: `kept` tokens of an image stay with it, the others are dealt out to all images.

    Without the last shuffle, those that stayed come first in each row, as algorithm 2 is printed.
    """
    own = within_images(count, tokens, generator)
    stay, leave = own[:, :kept], own[:, kept:]
    dealt = leave.flatten()[torch.randperm(leave.numel(), generator=generator)].view_as(leave)
    mixed = torch.cat((stay, dealt), 1)
    return mixed.gather(1, _shuffled(count, tokens, generator)) if last_shuffle else mixed


def share_kept(share: float, last_shuffle: bool, count: int, tokens: int, generator: Generator | None) -> Tensor:
    """Batch shuffling that keeps floor(share * tokens) of an image's tokens."""
    kept = math.floor(share * tokens + 1e-9)  # 0.29 * 100 is a little less than 29 in binary
    return across_batch(count, tokens, kept, generator, last_shuffle)


def _shuffled(count: int, tokens: int, generator: Generator | None) -> Tensor:
    # Sorting random keys is a uniform permutation unless two are equal. In double precision, 2**53 apart, the chance of
    # that is below 1e-9 for a thousand images of 196 tokens.
    return torch.rand(count, tokens, dtype=torch.float64, generator=generator).argsort(1)


def _first(count: int, tokens: int) -> Tensor:
    return (torch.arange(count) * tokens)[:, None]
