"""Small data that tests write in the formats of others."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(7)


def pictures(count: int, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
    return RNG.integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def arrays(train: int = 12, test: int = 6, classes: int = 3, **others: np.ndarray) -> dict[str, np.ndarray]:
    """What an own .npz holds; every class occurs."""
    return {
        "x_train": pictures(train),
        "y_train": np.arange(train) % classes,
        "x_test": pictures(test),
        "y_test": np.arange(test) % classes,
        **others,
    }


def idx(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
