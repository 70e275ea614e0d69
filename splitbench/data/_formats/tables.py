"""Tables of text cells as numbers: read, standardised, categories numbered."""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError, nearest

Cells = npt.NDArray[np.str_]
Mask = npt.NDArray[np.bool_]

_MISSING = ("", "NA", "NaN", "nan", "null")


@dataclass(frozen=True)
class Table:
    """Cells by column, and where the first row of them stands in the file."""

    path: Path
    columns: Mapping[str, Cells]
    first: int  # line number

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, row: int, column: str) -> str:
        return f"{self.path}, row {row + self.first}, column '{column}'"


def read(path: Path, separator: str = ",", names: Sequence[str] | None = None, rows: int = 0) -> Table:
    """A file, compressed if its name ends in .gz, with a header unless `names` are given; the first `rows`, 0 for all.

    Every row must have a cell in every column, which may be empty.
    """
    with _opened(path) as file:
        # Tab-separated logs know no quotes.
        lines = csv.reader(file, delimiter=separator, quoting=csv.QUOTE_NONE if names else csv.QUOTE_MINIMAL)
        header = list(names) if names else next(lines, [])
        if not header:
            raise SplitbenchError(f"{path} is empty; its first row must name the columns")
        if repeated := {name for name in header if header.count(name) > 1}:
            raise SplitbenchError(f"{path} names the column '{min(repeated)}' twice")
        if "" in header:
            raise SplitbenchError(f"{path}: column {header.index('') + 1} has no name")
        first = 1 if names else 2
        found = []
        for number, row in enumerate(itertools.islice(lines, rows or None), start=first):
            if len(row) != len(header):
                raise SplitbenchError(f"{path}, row {number}: {len(row)} cells, expected {len(header)}")
            found.append(row)
    if not found:
        raise SplitbenchError(f"{path} holds no rows" + ("" if names else " below its header"))
    return Table(path, dict(zip(header, map(np.array, zip(*found, strict=True)), strict=True)), first)


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="")
        ) as file:
            yield file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise SplitbenchError(f"{path} cannot be read as a table: {error}") from error


def labels(table: Table, column: str = "label") -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Classes numbered in the order of their names, by value if they are all numbers; at least two."""
    if column not in table.columns:
        raise SplitbenchError(f"{table.path} has no column '{column}'{nearest(column, table.columns)}")
    cells = table.columns[column]
    if (missing := np.isin(cells, _MISSING)).any():
        raise SplitbenchError(f"{table.where(int(missing.argmax()), column)}: the label is missing")
    names, y = np.unique(cells, return_inverse=True)
    if len(names) < 2:
        raise SplitbenchError(f"{table.path}: every row has the label '{names[0]}'; there is nothing to learn")
    if len(names) > len(cells) // 2:
        raise SplitbenchError(
            f"{table.path}: {len(names)} different labels in {len(cells)} rows; the column '{column}' must hold classes"
        )
    values = _numbers(names)
    order = np.argsort(names if values is None else values, kind="stable")
    return np.argsort(order)[y], tuple(names[order].tolist())


def _numbers(cells: Cells) -> npt.NDArray[np.float64] | None:
    """As numbers with NaN for missing ones; None if some cell is neither a number nor missing."""
    values = np.full(len(cells), np.nan)
    known = ~np.isin(cells, _MISSING)
    try:
        values[known] = cells[known].astype(np.float64)
    except ValueError:
        return None
    return values


def is_numeric(cells: Cells) -> bool:
    """Whether all cells that are not missing are numbers, and there is one."""
    values = _numbers(cells)
    return values is not None and bool((~np.isnan(values)).any())


def numeric(table: Table, column: str, fit: Mask, log: bool = False) -> tuple[Tensor, Field]:
    """Numbers with mean 0 and standard deviation 1 over the rows `fit`; a missing one is 0, which is the mean.

    `log` takes sign(v) log(1 + |v|) first.
    """
    cells = table.columns[column]
    values = _numbers(cells)
    if values is None:
        row = next(row for row, cell in enumerate(cells) if _numbers(cells[row : row + 1]) is None)
        raise SplitbenchError(f"{table.where(row, column)}: expected a number, got {str(cells[row])!r}")
    if (infinite := np.isinf(values)).any():
        raise SplitbenchError(f"{table.where(int(infinite.argmax()), column)}: the number is infinite")
    if log:
        values = np.sign(values) * np.log1p(np.abs(values))
    known = values[fit & ~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        mean, spread = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
    if not np.isfinite([mean, spread]).all():
        raise SplitbenchError(f"{table.path}, column '{column}': the numbers are too large to be standardised")
    # A column that does not vary says nothing, and its rounding must not be blown up to say something.
    varies = len(known) > 0 and spread > 1e-9 * np.abs(known).max()
    values = (values - mean) / spread if varies else np.where(np.isnan(values), values, 0.0)
    standard = np.nan_to_num(values, nan=0.0).astype(np.float32) + np.float32(0)  # no -0: equal rows, equal bytes
    if not np.isfinite(standard).all():
        raise SplitbenchError(f"{table.path}, column '{column}': the numbers are too large to be standardised")
    return torch.from_numpy(standard), Field(column)


def categorical(table: Table, column: str, fit: Mask, most: int) -> tuple[Tensor, Field]:
    """Ids by frequency over the rows `fit`, the commonest 1; what is rarer than `most` ids allow, or unseen, is 0.

    A missing value is a category like any other.
    """
    cells = np.where(np.isin(table.columns[column], _MISSING), "", table.columns[column])
    values, counts = np.unique(cells[fit], return_counts=True)
    kept = values[np.lexsort((values, -counts))][: most - 1]  # ties in the order of the values
    ids = np.zeros(len(cells), np.float32)
    if len(kept):
        ranked = np.argsort(kept)
        place = np.searchsorted(kept[ranked], cells).clip(max=len(kept) - 1)
        found = kept[ranked][place] == cells
        ids[found] = (ranked[place] + 1)[found]
    return torch.from_numpy(ids), Field(column, 1 + len(kept))
