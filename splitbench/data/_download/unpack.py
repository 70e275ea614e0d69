"""Open an archive that came from elsewhere, and let nothing out of the folder it was given."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal

from splitbench.core.errors import SplitbenchError


def unpack(archive: Path, kind: Literal["tar", "zip"], into: Path) -> None:
    try:
        _untar(archive, into) if kind == "tar" else _unzip(archive, into)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SplitbenchError(f"{archive.name} was not unpacked: {error}") from error


def _untar(archive: Path, into: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise SplitbenchError("unpacking safely needs Python 3.10.12, 3.11.4 or later")
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")


def _unzip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for name in packed.namelist():
            # zipfile would quietly write it elsewhere; a name like this is never an accident.
            if ".." in PurePosixPath(name).parts or name.startswith(("/", "\\")) or PureWindowsPath(name).drive:
                raise SplitbenchError(f"{archive.name} was not unpacked: '{name}' would leave its folder")
        packed.extractall(into)
