"""Where a data set's official files are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Source:
    url: str
    digest: str  # algorithm:hex
    place: str  # what it becomes in a data folder: the file, or the folder an archive unpacks to
    kind: Literal["file", "tar", "zip"] = "file"
