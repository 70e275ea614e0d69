"""Who gets which samples: the clients' private ones, the adversary's auxiliary ones, those that are scored."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor

from splitbench.core.data import DataSet, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._allocation.fingerprints import Prints, prints

Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
_SPLITS = {"private": "train", "auxiliary": "train", "evaluation": "test", "nonmembers": "test", "test": "test"}
_APART = ("private", "auxiliary", "evaluation", "nonmembers")


@dataclass(frozen=True)
class Allocation:
    """Rows of the training split (private, auxiliary) and of the test split (evaluation, nonmembers, test)."""

    private: Tensor
    auxiliary: Tensor
    evaluation: Tensor
    nonmembers: Tensor  # never trained on and not evaluated: what members are to be distinguished from
    test: Tensor  # all of the test split, for utility
    data: DataSet = field(repr=False, compare=False)
    public: DataSet = field(repr=False, compare=False)  # the data set that the auxiliary rows are of; mostly `data`

    @property
    def digests(self) -> dict[str, str]:
        """One for each set of rows, whatever their order."""
        found = {}
        for name, split in _SPLITS.items():
            foreign = name == "auxiliary" and self.public is not self.data
            start = f"{self.public.digest}:{split}:" if foreign else f"{split}:"
            rows = np.sort(getattr(self, name).numpy()).tobytes()
            found[name] = hashlib.sha256(start.encode() + rows).hexdigest()
        return found

    def samples(self, name: str) -> Samples:
        """The samples of a set of rows, with their extras."""
        whole: Samples = getattr(self.public if name == "auxiliary" else self.data, _SPLITS[name])
        return whole.take(getattr(self, name))

    def check(self) -> None:
        """Refuse rows given twice, and a sample that two of the sets have in common."""
        held = {}
        for name in _APART:
            rows = getattr(self, name).numpy()
            if repeated := len(rows) - len(np.unique(rows)):
                raise SplitbenchError(f"{repeated} {name} samples are given twice")
            source = self.public if name == "auxiliary" else self.data
            held[name] = prints(getattr(source, _SPLITS[name]).x)[rows]
        for first, second in itertools.combinations(_APART, 2):
            # By content: an image may be in the data under two numbers, or in both of its splits.
            if shared := int(np.isin(held[second], held[first]).sum()):
                raise SplitbenchError(f"{shared} of the {second} samples are among the {first} ones too")


def allocate(
    data: DataSet,
    private: int,
    auxiliary: int,
    evaluation: int,
    generator: Generator,
    public: DataSet | None = None,
    candidates: int = 0,
) -> Allocation:
    """Draw disjoint sets. `private=0` stands for all that the auxiliary set leaves over.

    Disjoint in content, not in number alone: evaluation and non-members avoid what also occurs in the training split,
    and auxiliary what also occurs among the private samples or in the test split. The numbers of auxiliary samples and
    of `candidates` for membership do not change which ones are private (unless these are the rest) or evaluated.
    With `public`, auxiliary samples come from the training split of that data set.
    """
    counts = {"private": private, "auxiliary": auxiliary, "evaluation": evaluation, "candidate": candidates}
    for name, count in counts.items():
        if count < 0:
            raise SplitbenchError(f"the number of {name} samples cannot be negative, got {count}")
    train, test = prints(data.train.x), prints(data.test.x)
    scored, others = _held_out(data, train, test, evaluation, candidates, generator)
    if private > len(train):
        raise SplitbenchError(f"asked for {private} private samples; '{data.name}' has {len(train)} to train on")
    order = _shuffled(len(train), generator)
    if public is None or public is data or public.digest == data.digest:
        public = data
        known, mine = _from_the_same(data, train, test, order, private, auxiliary)
    else:
        mine = order[:private] if private else order
        known = _from_another(data, public, np.concatenate([train[mine], test]), auxiliary, generator)
    private_rows, auxiliary_rows, evaluation_rows, nonmember_rows = (
        torch.from_numpy(part.copy()) for part in (mine, known, scored, others)
    )
    return Allocation(
        private_rows, auxiliary_rows, evaluation_rows, nonmember_rows, torch.arange(len(test)), data, public
    )


def _held_out(
    data: DataSet, train: Prints, test: Prints, evaluation: int, candidates: int, generator: Generator
) -> tuple[Rows, Rows]:
    """Rows of the test split to be evaluated, and others that no one was trained on."""
    unseen = np.flatnonzero(~np.isin(test, train))
    if evaluation > len(unseen):
        raise SplitbenchError(
            f"asked for {evaluation} evaluation samples; the test split of '{data.name}' has {len(test)}, "
            f"of which {len(unseen)} do not occur in the training split too"
        )
    shuffled = unseen[_shuffled(len(unseen), generator)]
    scored, others = shuffled[:evaluation], shuffled[evaluation:]
    others = others[~np.isin(test[others], test[scored])]
    if candidates > len(others):
        raise SplitbenchError(
            f"asked for {candidates} samples that are no members; the test split of '{data.name}' has {len(test)}, "
            f"of which {len(others)} are left that occur neither in the training split nor among the "
            f"{evaluation} evaluation samples"
        )
    return scored, others[:candidates]


def _from_the_same(
    data: DataSet, train: Prints, test: Prints, order: Rows, private: int, auxiliary: int
) -> tuple[Rows, Rows]:
    """Auxiliary and private rows of one data set."""
    mine, others = order[:private], order[private:]
    taken = np.isin(train, test) if private else np.isin(train, test) | _repeated(train)
    free = others[~taken[others] & ~np.isin(train[others], train[mine])]
    if auxiliary > len(free):
        raise SplitbenchError(
            f"asked for {auxiliary} auxiliary samples; of the {len(train)} to train on in '{data.name}', "
            f"{len(free)} are left that occur neither among the {private or 'other'} private ones nor in the test split"
        )
    known = free[:auxiliary]
    if private == 0:
        mine = order[~np.isin(order, known)]
    if len(mine) == 0:
        raise SplitbenchError(f"{auxiliary} auxiliary samples leave no private ones in '{data.name}'")
    return known, mine


def _from_another(data: DataSet, public: DataSet, taken: Prints, auxiliary: int, generator: Generator) -> Rows:
    """Auxiliary rows of another data set, none of them with the content of one that is private or in the test split."""
    if (public.modality, public.shape, public.fields) != (data.modality, data.shape, data.fields):
        what = "describe other fields" if public.shape == data.shape else f"have the shape {public.shape}"
        raise SplitbenchError(
            f"samples of '{public.name}' cannot be auxiliary to '{data.name}': they are {public.modality} and {what}, "
            f"those of '{data.name}' are {data.modality} of shape {data.shape}; set the same size for both"
        )
    found = prints(public.train.x)
    order = _shuffled(len(found), generator)
    free = order[~np.isin(found[order], taken)]
    if auxiliary > len(free):
        raise SplitbenchError(
            f"asked for {auxiliary} auxiliary samples; of the {len(found)} to train on in '{public.name}', "
            f"{len(free)} are left that do not occur in '{data.name}'"
        )
    return free[:auxiliary]


def _shuffled(count: int, generator: Generator) -> Rows:
    return torch.randperm(count, generator=generator).numpy()


def _repeated(values: Prints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return counts[inverse] > 1
