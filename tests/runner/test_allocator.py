"""Memory that is freed in one step is there in the next."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource, sys
import numpy as np
from splitbench.runner.allocator import keep_memory

def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    held = [np.ones(1 << 19) for _ in range(8)]

if sys.argv[1] == "keep":
    keep_memory()
for _ in range(3):
    step()
before = faults()
for _ in range(20):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep its memory")
def test_steps_need_no_new_pages_once_memory_is_kept() -> None:
    new = {}
    for how in ("keep", "leave"):
        done = subprocess.run([sys.executable, "-c", STEPS, how], capture_output=True, text=True, check=True)
        new[how] = int(done.stdout)
    assert new["keep"] < 200 < 20 * 8 * 100 < new["leave"]
