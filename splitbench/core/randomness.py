"""Seeds by purpose: what one part draws never moves what another draws."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator


def derive(seed: int, *purpose: object) -> int:
    """A seed for one purpose of one run."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: object) -> Generator:
    return Generator().manual_seed(derive(seed, *purpose))


@contextmanager
def seeded(seed: int, *purpose: object) -> Iterator[None]:
    """For what draws from torch's global generator (initialisation, dropout): seeded inside, restored after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, *purpose))
        yield
