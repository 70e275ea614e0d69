"""Reviews as token ids."""

from __future__ import annotations

import gzip
import json
import sys

import pytest
import torch

from splitbench.core.errors import SplitbenchError
from splitbench.data._formats import tokens as _tokens
from splitbench.data.imdb import Imdb

tokenizers = pytest.importorskip("tokenizers")

TRAIN = [("This film was a delight from the first scene to the last. " * 9, 1), ("Dull, dull, dull.", 0)]
TEST = [
    ("I liked it: naïve, yes, but never dull. 10/10 \N{SMILING FACE WITH SUNGLASSES}", 1),
    ("A waste of an evening.", 0),
]


@pytest.fixture
def lines(tmp_path):
    rows = [
        {"split": split, "label": label, "rating": 5, "text": text}
        for split, pairs in (("train", TRAIN), ("test", TEST))
        for text, label in pairs
    ]
    (tmp_path / "imdb.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tmp_path


def trained(vocabulary=400):
    return _tokens.tokenizer("", vocabulary, tuple(text for text, _ in TRAIN))


def test_long_reviews_are_cut_and_short_ones_repeated_between_the_marks(lines):
    data = Imdb(length=24, vocabulary=400).load((lines,))
    assert data.train.x.dtype == torch.int64
    assert (data.shape, data.classes, data.names, data.modality) == ((24,), 2, ("negative", "positive"), "text")
    assert data.train.y.tolist() == [1, 0]
    assert (data.train.x[:, 0] == 0).all()
    assert (data.train.x[:, -1] == 2).all()
    whole = [trained().encode(text).ids for text, _ in TRAIN]
    assert len(whole[0]) > 22 > len(whole[1])
    assert data.train.x[0, 1:-1].tolist() == whole[0][:22]
    assert data.train.x[1, 1:-1].tolist() == (whole[1] * 22)[:22]


def test_every_byte_of_a_text_survives(lines):
    data = Imdb(length=200, vocabulary=400).load((lines,))
    for row, (text, _) in zip(data.test.x, TEST, strict=True):
        assert trained().decode(row.tolist(), skip_special_tokens=True).startswith(text)


def test_ids_stay_below_the_vocabulary_and_no_padding_occurs(lines):
    for vocabulary in (300, 320):
        data = Imdb(length=32, vocabulary=vocabulary).load((lines,))
        ids = torch.cat([data.train.x, data.test.x])
        assert ids.max() < vocabulary
        assert not (ids == 1).any()


def test_a_review_without_a_word_is_unknown(lines):
    with (lines / "imdb.jsonl").open("a") as file:
        file.write(json.dumps({"split": "test", "label": 0, "text": ""}))
    assert Imdb(length=5, vocabulary=400).load((lines,)).test.x[2].tolist() == [0, 3, 3, 3, 2]


def test_the_folders_of_the_original_give_the_same_reviews(lines, tmp_path_factory):
    root = tmp_path_factory.mktemp("official")
    for split, pairs in (("train", TRAIN), ("test", TEST)):
        for n, (text, label) in enumerate(pairs):
            path = root / "aclImdb" / split / ("neg", "pos")[label] / f"{n}_7.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    official, ours = (Imdb(vocabulary=400).load((place,)) for place in (root, lines))
    assert official.train.y.tolist() == [0, 1]
    assert torch.equal(official.train.x.flip(0), ours.train.x)
    assert torch.equal(official.test.x.flip(0), ours.test.x)
    (root / "aclImdb" / "test" / "pos" / "0_7.txt").unlink()
    with pytest.raises(SplitbenchError, match="test/pos holds no reviews"):
        Imdb().load((root,))


def test_a_tokenizer_may_be_a_file_a_folder_or_robertas_two_files(lines, tmp_path):
    made = trained()
    made.enable_truncation(4)  # which a saved tokenizer may carry, and which must not cut ours
    made.enable_padding(length=9)
    made.save(str(tmp_path / "tokenizer.json"))
    made.no_truncation()
    made.no_padding()
    (tmp_path / "roberta").mkdir()
    made.model.save(str(tmp_path / "roberta"))
    expected = Imdb(vocabulary=400).load((lines,))
    for source in ("tokenizer.json", "", "roberta"):
        found = Imdb(vocabulary=400, tokenizer=str(tmp_path / source)).load((lines,))
        assert torch.equal(found.test.x, expected.test.x), source


def test_robertas_two_files_give_the_ids_that_transformers_gives(tmp_path):
    transformers = pytest.importorskip("transformers")
    trained().model.save(str(tmp_path))
    ours = _tokens.tokenizer(str(tmp_path), 400, ())
    theirs = transformers.RobertaTokenizer.from_pretrained(str(tmp_path))
    for text, _ in TRAIN + TEST:
        assert ours.encode(text, add_special_tokens=False).ids == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no tokenizer at .*vocab.json and merges.txt not found"),
        ({"vocab.json": "{}"}, "merges.txt not found"),
        ({"tokenizer.json": "{"}, "tokenizer.json cannot be read as a tokenizer"),
        ({"vocab.json": '{"<s>": 1}', "merges.txt": ""}, "has neither <s>, </s>, <unk> nor"),
    ],
)
def test_a_tokenizer_that_is_not_one_is_named(lines, tmp_path_factory, files, said):
    place = tmp_path_factory.mktemp("tokenizer")
    for name, text in files.items():
        (place / name).write_text(text)
    with pytest.raises(SplitbenchError, match=said):
        Imdb(tokenizer=str(place)).load((lines,))


def test_a_tokenizer_larger_than_the_vocabulary_says_how_large(lines, tmp_path):
    trained(340).save(str(tmp_path / "tokenizer.json"))
    needed = trained(340).get_vocab_size()
    with pytest.raises(SplitbenchError, match=f"set `vocabulary` to {needed}"):
        Imdb(vocabulary=300, tokenizer=str(tmp_path / "tokenizer.json")).load((lines,))


def word_piece(place):
    """A tokenizer of BERT's kind, saved as its publishers save it: with truncation and padding."""
    vocabulary = [
        "[PAD]",
        "this",
        "film",
        "was",
        "a",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "delight",
        "dull",
        "d",
        "##ull",
        ",",
        ".",
    ]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.enable_truncation(4)
    made.enable_padding(length=9)
    place.mkdir(exist_ok=True)
    made.save(str(place / "tokenizer.json"))
    return vocabulary


def test_a_tokenizer_of_berts_kind_puts_its_own_marks_around_a_text(lines, tmp_path):
    words = word_piece(tmp_path / "bert")
    data = Imdb(length=12, tokenizer=str(tmp_path / "bert")).load((lines,))
    dull = ["[CLS]", *(["dull", ",", "dull", ",", "dull", "."] * 2)[:10], "[SEP]"]
    assert [words[i] for i in data.train.x[1].tolist()] == dull
    first = "[CLS] this film was a delight [UNK] [UNK] [UNK] [UNK] [UNK] [SEP]"
    assert " ".join(words[i] for i in data.train.x[0].tolist()) == first
    assert data.train.x.max() < len(words)


def test_a_tokenizer_is_also_looked_for_in_the_data_folders(lines, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    word_piece(lines / "bert")
    near, far = (Imdb(length=12, tokenizer=place).load((lines,)) for place in (str(lines / "bert"), "bert"))
    assert near.digest == far.digest
    with pytest.raises(SplitbenchError, match="no tokenizer at nowhere"):
        Imdb(tokenizer="nowhere").load((lines,))


def test_the_pretrained_encoders_tokenizer_gives_the_ids_that_transformers_gives(shared_data, lines):
    transformers = pytest.importorskip("transformers")
    folder = shared_data / "weights" / "minilm"
    if not (folder / "tokenizer.json").is_file():
        pytest.skip("no weights/minilm in the data")
    data = Imdb(length=12, tokenizer=str(folder)).load((lines,))
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )
    for row, (text, _) in zip(data.train.x, TRAIN[:1], strict=False):
        assert row.tolist() == theirs(text, truncation=True, max_length=12)["input_ids"]


@pytest.mark.parametrize("vocabulary", [1, 299])
def test_a_vocabulary_that_does_not_hold_every_byte_is_refused(lines, vocabulary):
    with pytest.raises(SplitbenchError, match=f"a vocabulary of {vocabulary} .*set 300 or more, or 0"):
        Imdb(vocabulary=vocabulary).load((lines,))


def test_training_the_tokenizer_again_gives_the_same_one(lines):
    texts = tuple(text for text, _ in TRAIN)
    first = _tokens._trained(texts, 400)
    assert _tokens._trained(texts, 400) is first, "kept in memory"
    _tokens._trained.cache_clear()
    assert _tokens._trained(texts, 400).to_str() == first.to_str()


def test_without_the_package_it_says_what_to_install(lines, monkeypatch):
    _tokens._trained.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SplitbenchError, match=r"pip install 'splitbench\[text\]'"):
        Imdb().load((lines,))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 5: expected split, label and text"),
        ("[]", "line 5: expected split, label and text"),
        ('{"split": "train", "text": "a"}', "line 5: expected .*label"),
        ('{"split": "dev", "label": 1, "text": "a"}', "line 5: .*got split 'dev'"),
        ('{"split": "test", "label": 7, "text": "a"}', "line 5: .*label 7"),
        ('{"split": [], "label": 1, "text": "a"}', "line 5"),
        ('{"split": "test", "label": 1, "text": null}', "line 5: .*NoneType"),
    ],
)
def test_a_wrong_line_is_named_by_its_number(lines, line, said):
    with (lines / "imdb.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(SplitbenchError, match=said):
        Imdb().load((lines,))


def test_a_damaged_or_one_sided_file_is_named(tmp_path):
    path = tmp_path / "imdb.jsonl.gz"
    row = json.dumps({"split": "train", "label": 1, "text": "a"}).encode()
    path.write_bytes(gzip.compress(row)[:-6])
    with pytest.raises(SplitbenchError, match="cannot be read"):
        Imdb().load((tmp_path,))
    path.write_bytes(gzip.compress(row))
    with pytest.raises(SplitbenchError, match="split test holds no reviews"):
        Imdb().load((tmp_path,))
