"""Who gets which samples: the clients' private ones, the adversary's auxiliary ones, those that are scored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor

from splitbench.core.data import DataSet
from splitbench.core.errors import SplitbenchError
from splitbench.data._allocation.fingerprints import prints

_SPLITS = {"private": "train", "auxiliary": "train", "evaluation": "test", "test": "test"}


@dataclass(frozen=True)
class Allocation:
    """Rows of the training split (private, auxiliary) and of the test split (evaluation, test)."""

    private: Tensor
    auxiliary: Tensor
    evaluation: Tensor
    test: Tensor  # all of the test split, for utility
    data: DataSet = field(repr=False, compare=False)

    @property
    def digests(self) -> dict[str, str]:
        """One for each set of rows, whatever their order."""
        return {
            name: hashlib.sha256(f"{split}:".encode() + np.sort(getattr(self, name).numpy()).tobytes()).hexdigest()
            for name, split in _SPLITS.items()
        }

    def check(self) -> None:
        """Refuse rows given twice, and a sample that two of private, auxiliary and evaluation have in common."""
        held = {}
        for name in ("private", "auxiliary", "evaluation"):
            rows = getattr(self, name).numpy()
            if repeated := len(rows) - len(np.unique(rows)):
                raise SplitbenchError(f"{repeated} {name} samples are given twice")
            held[name] = prints(getattr(self.data, _SPLITS[name]).x)[rows]
        for first, second in (("private", "auxiliary"), ("private", "evaluation"), ("auxiliary", "evaluation")):
            # By content: an image may be in the data under two numbers, or in both of its splits.
            if shared := int(np.isin(held[second], held[first]).sum()):
                raise SplitbenchError(f"{shared} of the {second} samples are among the {first} ones too")


def allocate(data: DataSet, private: int, auxiliary: int, evaluation: int, generator: Generator) -> Allocation:
    """Draw disjoint sets. `private=0` stands for all that the auxiliary set leaves over.

    Disjoint in content, not in number alone: evaluation avoids what also occurs in the training split, and auxiliary
    what also occurs among the private samples or in the test split. The number of auxiliary samples does not change
    which ones are private (unless these are the rest) or evaluated.
    """
    for name, count in (("private", private), ("auxiliary", auxiliary), ("evaluation", evaluation)):
        if count < 0:
            raise SplitbenchError(f"the number of {name} samples cannot be negative, got {count}")
    train, test = prints(data.train.x), prints(data.test.x)
    unseen = np.flatnonzero(~np.isin(test, train))
    if evaluation > len(unseen):
        raise SplitbenchError(
            f"asked for {evaluation} evaluation samples; the test split of '{data.name}' has {len(test)}, "
            f"of which {len(unseen)} do not occur in the training split too"
        )
    if private > len(train):
        raise SplitbenchError(f"asked for {private} private samples; '{data.name}' has {len(train)} to train on")
    scored = unseen[_shuffled(len(unseen), generator)[:evaluation]]
    order = _shuffled(len(train), generator)
    mine, others = order[:private], order[private:]
    taken = np.isin(train, test) if private else np.isin(train, test) | _repeated(train)
    free = others[~taken[others] & ~np.isin(train[others], train[mine])]
    if auxiliary > len(free):
        raise SplitbenchError(
            f"asked for {auxiliary} auxiliary samples; of the {len(train)} to train on in '{data.name}', "
            f"{len(free)} are left that occur neither among the {private or 'other'} private ones nor in the test split"
        )
    public = free[:auxiliary]
    if private == 0:
        mine = order[~np.isin(order, public)]
    if len(mine) == 0:
        raise SplitbenchError(f"{auxiliary} auxiliary samples leave no private ones in '{data.name}'")
    private_rows, auxiliary_rows, evaluation_rows = (torch.from_numpy(part.copy()) for part in (mine, public, scored))
    return Allocation(private_rows, auxiliary_rows, evaluation_rows, torch.arange(len(test)), data)


def _shuffled(count: int, generator: Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return torch.randperm(count, generator=generator).numpy()


def _repeated(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return counts[inverse] > 1
