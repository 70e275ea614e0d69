"""Profiles as Parquet rows, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from splitbench.core.errors import SplitbenchError


def save(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        raise SplitbenchError(f"rows are saved as .parquet, not as '{path.name}'")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows)), draft)
        draft.replace(path)
    except OSError as error:
        raise SplitbenchError(f"cannot write {path}: {error}") from error
