"""Download a data set's official files, checked against the digests their publishers give."""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from splitbench.core.errors import SplitbenchError
from splitbench.core.progress import tell
from splitbench.core.registry import load
from splitbench.data._download.source import Source
from splitbench.data._download.unpack import unpack
from splitbench.data._folders import locate

Opener = Callable[[str], Any]  # what urlopen gives: a context with `read` and `headers`
_CHUNK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _open(url: str) -> Any:
    return urllib.request.urlopen(url, timeout=60)


def fetch(name: str, folder: Path, opener: Opener = _open) -> Path:
    """Bring a data set into a folder, whole or not at all, and say where it is; what is there is not fetched again."""
    component: Any = load("data", name)
    if instructions := getattr(component, "instructions", ""):
        raise SplitbenchError(instructions.format(folder=folder))
    sources: tuple[Source, ...] = getattr(component, "sources", ())
    if not sources:
        raise SplitbenchError(f"'{name}' needs no download")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            if not (folder / source.place).exists():
                _obtain(source, folder, opener)
    except OSError as error:
        raise _no_room(folder, error) from error
    return locate(name, component.files, (folder,))


def _obtain(source: Source, folder: Path, opener: Opener) -> None:
    target = folder / source.place
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, so that the last step is a rename within one file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as place:
        arrived = Path(place) / target.name
        with arrived.open("wb") as file:
            _stream(source, file, opener)
        if source.kind != "file":
            tell(f"unpacking {source.place}", 0, 1)
            opened = Path(place) / "unpacked"
            unpack(arrived, source.kind, opened)
            arrived = opened / source.place
            if not arrived.exists():
                raise SplitbenchError(f"{source.url} unpacked, but held no '{source.place}'")
        arrived.rename(target)


def _stream(source: Source, file: IO[bytes], opener: Opener) -> None:
    algorithm, _, expected = source.digest.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    done = 0
    with _reached(source, lambda: opener(source.url)) as response:
        total = int(response.headers.get("Content-Length") or 0)
        while chunk := _reached(source, lambda: response.read(_CHUNK)):
            digest.update(chunk)
            file.write(chunk)
            done += len(chunk)
            tell(f"fetching {source.place}", done, total)
    if digest.hexdigest() != expected:
        short = f" after {done} of {total} bytes" if done < total else ""
        raise SplitbenchError(
            f"{source.url} arrived{short} with the {algorithm} digest {digest.hexdigest()}, expected {expected}. "
            "It was thrown away; try again, or look for a proxy that changes downloads."
        )


def _reached(source: Source, ask: Callable[[], Any]) -> Any:
    """What the network answers, or why it does not."""
    try:
        return ask()
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        code = f"{error.code} " if isinstance(error, urllib.error.HTTPError) else ""
        raise SplitbenchError(
            f"{source.url} cannot be had: {code}{reason}. Without a network, bring {source.place} "
            "from elsewhere into a folder that SPLITBENCH_DATA names."
        ) from error


def _no_room(folder: Path, error: OSError) -> SplitbenchError:
    if error.errno in _FULL:
        near = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(near).free / 1e6
        return SplitbenchError(f"no room in {folder} ({free:.0f} MB free); nothing was kept. Choose another folder.")
    return SplitbenchError(f"{folder} cannot be written: {error.strerror or error}")
