"""Numbers as an engineer reads them."""

from __future__ import annotations

import math

from splitbench.edge.roofline import Range


def _scaled(value: float, unit: str, prefixes: str = " kMGTP") -> str:
    if value == 0:
        return "0"
    power = min(max(0, int(math.log10(abs(value)) // 3)), len(prefixes) - 1)
    # 999.7 would be shown as 1000.
    if power + 1 < len(prefixes) and abs(value) / 1000**power >= 999.5:
        power += 1
    number = value / 1000**power
    digits = 0 if number >= 99.5 or (power == 0 and float(number).is_integer()) else 1 if number >= 9.95 else 2
    return f"{number:.{digits}f} {prefixes[power].strip()}{unit}".rstrip()


def count(value: float) -> str:
    """MACs, parameters: 17.6 G."""
    return _scaled(value, "")


def size(value: float) -> str:
    """Bytes, in powers of ten: 4.19 MB."""
    return _scaled(value, "B")


def duration(seconds: float) -> str:
    if seconds == 0:
        return "0"
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 119.5:
        return f"{seconds:.3g} s"
    if seconds < 7199:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def energy(joules: float) -> str:
    if joules and joules < 0.9995:
        return f"{joules * 1e3:.3g} mJ"
    return _scaled(joules, "J")


def between(value: Range, say: object = duration) -> str:
    """The prediction and its range: 1.2 s (0.6 s to 2.4 s)."""
    assert callable(say)
    return f"{say(value.value)} ({say(value.low)} to {say(value.high)})"
