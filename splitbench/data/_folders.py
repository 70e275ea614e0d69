"""Where data is looked for, and what is said when it is nowhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from splitbench.core.errors import SplitbenchError

EMBEDDED = Path(__file__).parent / "_embedded"


def cache() -> Path:
    """Where downloads go unless told otherwise."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "splitbench" / "data"


def folders() -> tuple[Path, ...]:
    """The user's folders (`SPLITBENCH_DATA`), then the downloads, then what ships with splitbench."""
    named = os.environ.get("SPLITBENCH_DATA", "").split(os.pathsep)
    return (*(Path(place).expanduser() for place in named if place), cache(), EMBEDDED)


def search(files: Sequence[str], places: Sequence[Path]) -> Path | None:
    """The first of the files in the first of the folders that has one."""
    return next((place / file for place in places for file in files if (place / file).exists()), None)


def locate(name: str, files: Sequence[str], places: Sequence[Path], *, fetchable: bool = True) -> Path:
    """Like `search`, with an error that says where was looked, for what, and what to do."""
    path = search(files, places)
    if path is not None:
        return path
    shown = [f"  {place}" if place.is_dir() else f"  {place} (no such folder)" for place in places]
    fetch = f"Run `splitbench data fetch {name}`, or set" if fetchable else "Set"
    raise SplitbenchError(
        "\n".join(
            [
                f"no data for '{name}': looked for {', '.join(files)} in",
                *shown,
                f"{fetch} SPLITBENCH_DATA to a folder that holds one of these.",
            ]
        )
    )
