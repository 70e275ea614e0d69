"""Where tensors live: the processor, or a graphics card. Said once per command; everything asks `current()`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from splitbench.core.errors import SplitbenchError, nearest

if TYPE_CHECKING:
    import torch

VARIABLE = "SPLITBENCH_DEVICE"
NAMES = ("auto", "cpu", "cuda", "cuda:1", "mps")

# Not a context variable: gradients of a graphics card are computed in threads of torch's own.
_chosen: list[torch.device] = []


def current() -> torch.device:
    """The device of this command: the innermost `using`, else that of SPLITBENCH_DEVICE, else the processor."""
    return _chosen[-1] if _chosen else resolve("")


@contextmanager
def using(name: str | torch.device) -> Iterator[torch.device]:
    """Everything inside is on this device; an empty name changes nothing."""
    if name == "":
        yield current()
        return
    _chosen.append(resolve(name) if isinstance(name, str) else name)
    try:
        yield _chosen[-1]
    finally:
        _chosen.pop()


def resolve(name: str) -> torch.device:
    """The device meant by a name. Raises `SplitbenchError` for one that is not here."""
    import torch

    asked = name or os.environ.get(VARIABLE, "") or "cpu"
    source = "--device" if name else VARIABLE
    if asked == "auto":
        return torch.device(_here()[0])
    kind, colon, index = asked.partition(":")
    known = kind in ("cpu", "cuda", "mps") and (not colon or (kind == "cuda" and index.isdecimal()))
    if not known:
        raise SplitbenchError(f"{source}: no device named '{asked}'{nearest(asked, NAMES)}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise SplitbenchError(f"{source} {asked}: no CUDA device here; there is {' and '.join(_here())}")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise SplitbenchError(f"{source} {asked}: the last CUDA device here is cuda:{torch.cuda.device_count() - 1}")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise SplitbenchError(f"{source} {asked}: no Apple GPU here; there is {' and '.join(_here())}")
    return torch.device(asked)


def _here() -> list[str]:
    """What this machine has, the fastest first."""
    import torch

    cards = ["cuda"] if torch.cuda.is_available() else []
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return [*cards, *apple, "cpu"]


def processor() -> str:
    """The model of the processor or graphics card that `current()` is, as far as the machine says it."""
    import torch

    here = current()
    if here.type == "cuda":
        return torch.cuda.get_device_name(here)
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(errors="replace").splitlines() if listed.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
