"""Seeds by purpose: what one part draws never changes what another draws."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor


def derive(seed: int, *purpose: object) -> int:
    """A seed for one purpose of one run."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *purpose: object) -> Generator:
    """On the CPU whatever the device, so that the same seed draws the same numbers everywhere."""
    return Generator().manual_seed(derive(seed, *purpose))


@contextmanager
def seeded(seed: int, *purpose: object) -> Iterator[None]:
    """For what draws from torch's global generator (initialisation, dropout): seeded inside, restored after."""
    with torch.random.fork_rng(devices=_accelerators()):
        torch.manual_seed(derive(seed, *purpose))
        yield


def _accelerators() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


class Streams:
    """The random numbers of one party: a generator for each purpose, and a state of torch's global generator for
    layers that draw from it (dropout). Two parties never share one."""

    def __init__(self, seed: int, *owner: object) -> None:
        self.seed = derive(seed, *owner)
        self._generators: dict[str, Generator] = {}
        self._layers: Tensor | None = None
        self._others: list[Tensor] = []

    def of(self, purpose: str) -> Generator:
        if purpose not in self._generators:
            self._generators[purpose] = generator(self.seed, purpose)
        return self._generators[purpose]

    @contextmanager
    def layers(self) -> Iterator[None]:
        """While the party is at work, torch's global generator is its own and goes on where it was."""
        outside = torch.random.get_rng_state()
        far = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        if self._layers is None:
            torch.manual_seed(derive(self.seed, "layers"))
        else:
            torch.random.set_rng_state(self._layers)
            if self._others:
                torch.cuda.set_rng_state_all(self._others)
        try:
            yield
        finally:
            self._layers = torch.random.get_rng_state()
            torch.random.set_rng_state(outside)
            if far:
                self._others = torch.cuda.get_rng_state_all()
                torch.cuda.set_rng_state_all(far)
