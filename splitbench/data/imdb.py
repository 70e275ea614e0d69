from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge

from splitbench.core.data import Data, DataSet, Samples
from splitbench.data._download.source import Source
from splitbench.data._folders import locate
from splitbench.data._formats import reviews as _reviews
from splitbench.data._formats import tokens as _tokens


@dataclass(frozen=True)
class Imdb(Data):
    """Film reviews, negative or positive, as token ids of RoBERTa's kind.

    Maas et al., "Learning word vectors for sentiment analysis", 2011.
    Long reviews are cut. Short ones are repeated until they fill the length, so that no padding, and no mask that
    tells the server where it is, need cross the cut. Without a tokenizer of one's own, a byte-level BPE is trained
    on the training split. Every id is below `vocabulary`; a model must know at least that many.
    """

    files: ClassVar[tuple[str, ...]] = ("imdb.jsonl.gz", "imdb.jsonl", "aclImdb", "imdb/aclImdb")
    sources: ClassVar[tuple[Source, ...]] = (
        Source(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "md5:7c2ac02c03563afcf9b574c7e56c153a",
            "aclImdb",
            "tar",
        ),
    )

    length: Annotated[int, Ge(3)] = 128  # tokens in a review, with the <s> and </s> around it
    vocabulary: Annotated[int, Ge(300)] = 8192  # token ids; the size of the tokenizer that is trained
    tokenizer: str = ""  # a tokenizer.json, or a folder with RoBERTa's vocab.json and merges.txt; empty: train one

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        path = locate("imdb", self.files, folders)
        reviews = _reviews.from_folders(path) if path.is_dir() else _reviews.from_lines(path)
        tokenizer = _tokens.tokenizer(self.tokenizer, self.vocabulary, reviews["train"].texts)
        train, test = (
            Samples(_tokens.encode(tokenizer, part.texts, self.length), torch.tensor(part.labels))
            for part in (reviews["train"], reviews["test"])
        )
        return DataSet("imdb", train, test, classes=2, names=("negative", "positive"))
