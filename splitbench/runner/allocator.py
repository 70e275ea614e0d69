"""How freed memory is dealt with."""

from __future__ import annotations

import contextlib
import ctypes

HEAP = 32 * 2**20  # bytes: glibc takes what is larger from the system, and gives it back


def keep_memory() -> None:
    """Has glibc keep what is freed instead of handing it back to the system and asking again in the next step.

    Whether it hands memory back depends on which block lies last, and pages that are new cost a step of training or of
    an attack about a fifth, a client of a few milliseconds up to half. Without glibc nothing is changed.
    """
    trim_threshold, mmap_threshold = -1, -3  # as malloc.h numbers them
    with contextlib.suppress(OSError, AttributeError, TypeError):
        glibc = ctypes.CDLL(None)
        glibc.mallopt(mmap_threshold, HEAP)
        glibc.mallopt(trim_threshold, 2**31 - 1)
