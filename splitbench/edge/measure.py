"""The real thing: a client's own steps in a fresh process, timed, and its resident set at the peak.

python -m splitbench.edge.measure '<case as JSON>'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from splitbench.core.errors import SplitbenchError

FRUGAL = {"MALLOC_MMAP_THRESHOLD_": "131072"}
WARM = 2  # steps before any is timed
STEPS = 400  # at most
SECONDS = 2.5  # after which no further step is begun, unless told otherwise


@dataclass(frozen=True)
class Measured:
    """Of one client: the shortest of its steps, since whatever else runs only makes them longer; the largest
    resident set."""

    forward: float  # seconds, with the defense and the penalty
    backward: float  # seconds, with sanitised gradients and the update
    resident: int  # bytes, of the whole process
    before: int  # bytes, of the process before it had a network
    steps: int
    threads: int

    @property
    def seconds(self) -> float:
        return self.forward + self.backward


def measure(document: dict[str, Any], threads: int, frugal: bool = False, seconds: float = SECONDS) -> Measured:
    """In a process of its own, so that nothing that was loaded or kept before is counted.

    A frugal one gives freed memory back at once (glibc's first threshold, kept fixed), which takes time: then what is
    resident is what is in use.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    environment |= FRUGAL if frugal else {}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-m", "splitbench.edge.measure", json.dumps({**document, "seconds": seconds})]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise SplitbenchError(f"the step could not be measured: {last}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def resident(peak: bool = False) -> int:
    """Bytes of this process in memory, now or at its peak since `forget_peak`."""
    status = Path("/proc/self/status")
    if status.is_file():
        name = "VmHWM:" if peak else "VmRSS:"
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024
    import psutil  # where there is no /proc

    info = psutil.Process().memory_info()
    return int(getattr(info, "peak_wset", info.rss) if peak else info.rss)


def forget_peak() -> None:
    place = Path("/proc/self/clear_refs")
    if place.exists():
        place.write_text("5")


def perform(document: dict[str, Any]) -> Measured:
    import torch

    from splitbench.edge.benches import clock, warm_up
    from splitbench.edge.case import from_plain, stage
    from splitbench.edge.client import Client
    from splitbench.runner.allocator import keep_memory
    from splitbench.runner.learner import Optimised

    only, seconds = document.pop("only_before", False), document.pop("seconds", SECONDS)
    frugal = "MALLOC_MMAP_THRESHOLD_" in os.environ
    case = from_plain(document)
    if not frugal:
        keep_memory()
    warm_up()
    scene = stage(case)  # loads what the network needs, without its numbers
    before = resident()
    if only:
        return Measured(0.0, 0.0, before, before, 0, torch.get_num_threads())
    client = Client(case, scene)
    optimizers = [Optimised(client.stages, case.training, 1)] if case.work == "training" else []
    forget_peak()
    times: list[tuple[float, float]] = []
    now = clock()
    begun = time.perf_counter()
    while len(times) < WARM + 3 or (len(times) < WARM + STEPS and time.perf_counter() - begun < seconds):
        for optimizer in optimizers:
            optimizer.zero_grad()
        start = now()
        client.forward()
        middle = now()
        if case.work == "training":
            client.receive()
            again = now()
            client.backward()
            for optimizer in optimizers:
                optimizer.step()
        times.append((middle - start, now() - again if optimizers else 0.0))
    taken = times[WARM:]
    forward, backward = (min(column) for column in zip(*taken, strict=True))
    return Measured(forward, backward, resident(peak=True), before, len(taken), torch.get_num_threads())


if __name__ == "__main__":
    print(json.dumps(asdict(perform(json.loads(sys.argv[1])))))
