"""Where files that settings name by a short path are found."""

from __future__ import annotations

import os
from pathlib import Path


def under_data_folders(place: str) -> Path | None:
    """The first file or folder of this name in one of the folders that SPLITBENCH_DATA names."""
    named = (Path(folder).expanduser() for folder in os.environ.get("SPLITBENCH_DATA", "").split(os.pathsep) if folder)
    return next((folder / place for folder in named if (folder / place).exists()), None)
