from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge

from splitbench.core.data import Data, DataSet, Modality, Samples
from splitbench.core.errors import SplitbenchError
from splitbench.data._download.source import Source
from splitbench.data._folders import locate, search
from splitbench.data._formats import reviews as _reviews
from splitbench.data._formats import tokens as _tokens


@dataclass(frozen=True)
class Imdb(Data):
    """Film reviews, negative or positive, as token ids of RoBERTa's or BERT's kind.

    Maas et al., "Learning word vectors for sentiment analysis", 2011.
    Long reviews are cut. Short ones are repeated until they fill the length, so that no padding, and no mask that
    shows the server where it is, need cross the cut. Without a tokenizer of your own, a byte-level BPE is trained
    on the training split. Every id is below `vocabulary`; a model must know at least that many. A pretrained model
    understands the ids of its own tokenizer alone.
    """

    modality: ClassVar[Modality] = "text"
    reads: ClassVar[tuple[str, ...]] = ("tokenizer",)
    files: ClassVar[tuple[str, ...]] = ("imdb.jsonl.gz", "imdb.jsonl", "aclImdb", "imdb/aclImdb")
    sources: ClassVar[tuple[Source, ...]] = (
        Source(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "md5:7c2ac02c03563afcf9b574c7e56c153a",
            "aclImdb",
            "tar",
        ),
    )

    length: Annotated[int, Ge(3)] = 128  # tokens in a review, with the marks around it
    vocabulary: Annotated[int, Ge(0)] = 0  # token ids, at least 300; 0: the tokenizer's own, or 8192 for a trained one
    keep: Literal["first", "last"] = "first"  # the end of a long review that is kept; its last words are its verdict
    tokenizer: str = ""  # a tokenizer.json, or a folder with one, here or in the data folders; empty: train one

    def load(self, folders: tuple[Path, ...]) -> DataSet:
        if 0 < self.vocabulary < 300:
            raise SplitbenchError(f"a vocabulary of {self.vocabulary} does not hold every byte; set 300 or more, or 0")
        path = locate("imdb", self.files, folders)
        reviews = _reviews.from_folders(path) if path.is_dir() else _reviews.from_lines(path)
        tokenizer = _tokens.tokenizer(self._source(folders), self.vocabulary, reviews["train"].texts)
        train, test = (
            Samples(_tokens.encode(tokenizer, part.texts, self.length, self.keep), torch.tensor(part.labels))
            for part in (reviews["train"], reviews["test"])
        )
        return DataSet("imdb", train, test, classes=2, names=("negative", "positive"), modality="text")

    def _source(self, folders: tuple[Path, ...]) -> str:
        """The tokenizer as a path: where it says, or in one of the data folders."""
        if not self.tokenizer or Path(self.tokenizer).expanduser().exists():
            return self.tokenizer
        found = search((self.tokenizer,), folders)
        return str(found) if found else self.tokenizer
