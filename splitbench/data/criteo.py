from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Ge

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._folders import locate
from splitbench.data._formats import tables as _tables

_NUMBERS = tuple(f"I{i}" for i in range(1, 14))
_CATEGORIES = tuple(f"C{i}" for i in range(1, 27))
_COLUMNS = ("label", *_NUMBERS, *_CATEGORIES)


@dataclass(frozen=True)
class Criteo(Data):
    """Advertisements that were clicked or not: 13 counts and 26 categories.

    Criteo, "Display advertising challenge", 2014. https://www.kaggle.com/c/criteo-display-ad-challenge
    Counts v become sign(v) log(1 + |v|), standardised over the training rows; a missing count is 0, the mean. The
    commonest categories of a field have ids of their own; rarer ones, and those of the test split alone, share id 0;
    a missing category is one of its own. Rows are in the order of time: the last fifth is the test split.
    """

    modality: ClassVar[Modality] = "tabular"
    files: ClassVar[tuple[str, ...]] = ("criteo.csv.gz", "criteo.csv", "criteo/train.txt", "dac/train.txt")
    instructions: ClassVar[str] = (
        "Criteo hands out its logs under terms that must be accepted: "
        "https://ailab.criteo.com/ressources/kaggle-display-advertising-challenge-dataset/. "
        "Unpack train.txt into {folder}/criteo."
    )
    names: ClassVar[tuple[str, ...]] = ("not clicked", "clicked")

    categories: Annotated[int, Ge(2)] = 1000  # ids of a field at most, with the one that rare categories share
    rows: Annotated[int, Ge(0)] = 100_000  # rows read from the start of the file; 0: all of them

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("criteo", self.files, folders)
        official = path.suffix == ".txt"
        table = _tables.read(path, "\t" if official else ",", _COLUMNS if official else None, self.rows)
        if tuple(table.columns) != _COLUMNS:
            missing = [name for name in _COLUMNS if name not in table.columns]
            what = f"lacks {', '.join(missing[:3])}" if missing else "has more columns, or in another order"
            raise SplitbenchError(f"{path} {what}; expected the columns label, I1 to I13, C1 to C26")
        y = np.array([_label(table, row) for row in range(len(table))])
        count = len(table) - len(table) // 5
        trained = np.arange(len(table)) < count
        if count == len(table):
            raise SplitbenchError(f"{path} has {len(table)} rows; at least 5 are needed to hold some back for testing")
        columns = [_tables.numeric(table, name, trained, log=True) for name in _NUMBERS]
        columns += [_tables.categorical(table, name, trained, self.categories) for name in _CATEGORIES]
        x = torch.stack([values for values, _ in columns], 1)
        train, test = (Samples(x[rows], torch.from_numpy(y[rows])) for rows in (trained, ~trained))
        fields = tuple(field for _, field in columns)
        return DataSet("criteo", train, test, 2, names=self.names, modality="tabular", fields=fields)


def _label(table: _tables.Table, row: int) -> int:
    cell = table.columns["label"][row]
    if cell not in ("0", "1"):
        raise SplitbenchError(f"{table.where(row, 'label')}: expected 0 or 1, got {str(cell)!r}")
    return int(cell)
