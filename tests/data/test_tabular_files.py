"""Tables: Criteo's logs, and your own .csv."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace

import numpy as np
import pytest
import torch

from splitbench.core import registry
from splitbench.core.data import DataSet, Field, Samples, as_input
from splitbench.core.errors import SplitbenchError
from splitbench.data.criteo import Criteo

NUMBERS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]
COLUMNS = ["label", *NUMBERS, *CATEGORIES]


def rows(count: int = 20) -> list[list[str]]:
    """Logs in which some counts and categories are missing."""
    rng = np.random.default_rng(3)
    return [
        [
            str(row % 2),
            *(str(v) if v > -3 else "" for v in rng.integers(-3, 200, 13)),
            *("" if v == 0 else f"{v:08x}" for v in rng.integers(0, 6, 26)),
        ]
        for row in range(count)
    ]


def write_csv(path, header, body, **options):
    with path.open("w", newline="") as file:
        csv.writer(file, **options).writerows([header, *body] if header else body)
    return path


def own(path, **settings) -> DataSet:
    return registry.load("data", str(path))(**settings).load(())


@pytest.fixture
def criteo(tmp_path):
    write_csv(tmp_path / "criteo.csv", COLUMNS, rows())
    return tmp_path


def test_counts_are_logarithms_with_the_mean_and_spread_of_the_training_rows(criteo):
    data = Criteo().load((criteo,))
    assert (data.modality, data.shape, data.classes, len(data.train), len(data.test)) == ("tabular", (39,), 2, 16, 4)
    assert data.train.x.dtype == torch.float32
    x = torch.cat([data.train.x, data.test.x])
    for place, name in enumerate(NUMBERS):
        cells = [row[1 + place] for row in rows()]
        logs = [None if c == "" else np.sign(float(c)) * np.log1p(abs(float(c))) for c in cells]
        known = [v for v in logs[:16] if v is not None]
        mean, spread = np.mean(known), np.std(known)
        expected = [0.0 if v is None else (v - mean) / spread for v in logs]
        assert x[:, place].tolist() == pytest.approx(expected, abs=1e-5), name
        assert data.fields[place] == Field(name)


def test_categories_are_numbered_by_how_often_they_occur_in_training(criteo):
    data = Criteo(categories=4).load((criteo,))
    x = torch.cat([data.train.x, data.test.x])
    for place, name in enumerate(CATEGORIES):
        cells = [row[14 + place] for row in rows()]
        common = sorted(set(cells[:16]), key=lambda c: (-cells[:16].count(c), c))[:3]
        expected = [1 + common.index(c) if c in common else 0 for c in cells]
        assert x[:, 13 + place].tolist() == expected, name
        assert data.fields[13 + place] == Field(name, 1 + len(common))


def test_all_categories_of_the_training_rows_are_told_apart_where_there_is_room(criteo):
    data = Criteo().load((criteo,))
    for place in range(26):
        cells = [row[14 + place] for row in rows()[:16]]
        ids = data.train.x[:, 13 + place].tolist()
        assert len(set(zip(cells, ids, strict=True))) == len(set(cells)) == len(set(ids))
        assert min(ids) == 1, "0 is for what training never saw"


def test_the_last_fifth_is_the_test_split(criteo):
    data = Criteo().load((criteo,))
    assert data.train.y.tolist() == [row % 2 for row in range(16)]
    assert data.test.y.tolist() == [row % 2 for row in range(16, 20)]
    assert data.train.y.dtype == torch.int64


def test_the_official_log_and_a_compressed_file_give_the_same_data(criteo, tmp_path_factory):
    official, packed = tmp_path_factory.mktemp("official"), tmp_path_factory.mktemp("packed")
    (official / "criteo").mkdir()
    lines = "".join("\t".join(row) + "\n" for row in rows())
    (official / "criteo" / "train.txt").write_text(lines)
    (packed / "criteo.csv.gz").write_bytes(gzip.compress((criteo / "criteo.csv").read_bytes()))
    expected = Criteo().load((criteo,)).digest
    assert Criteo().load((official,)).digest == expected
    assert Criteo().load((packed,)).digest == expected
    assert len(Criteo(rows=10).load((official,)).train) == 8


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r[0].pop(), "row 2: 39 cells, expected 40"),
        (lambda r: r[3].append("x"), "row 5: 41 cells, expected 40"),
        (lambda r: r[1].__setitem__(0, "2"), "row 3, column 'label': expected 0 or 1, got '2'"),
        (lambda r: r[1].__setitem__(0, ""), "row 3, column 'label': expected 0 or 1, got ''"),
        (lambda r: r[2].__setitem__(4, "many"), "row 4, column 'I4': expected a number, got 'many'"),
        (lambda r: r[2].__setitem__(4, "inf"), "row 4, column 'I4': the number is infinite"),
        (lambda r: r.__delitem__(slice(4, None)), "has 4 rows; at least 5"),
        (lambda r: r.clear(), "holds no rows below its header"),
    ],
)
def test_a_wrong_row_is_named_by_its_number(tmp_path, change, said):
    body = rows()
    change(body)
    write_csv(tmp_path / "criteo.csv", COLUMNS, body)
    with pytest.raises(SplitbenchError, match=said):
        Criteo().load((tmp_path,))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (COLUMNS[:-1], "lacks C26; expected the columns"),
        ([*COLUMNS, "more"], "more columns, or in another order"),
        (["label", *CATEGORIES, *NUMBERS], "more columns, or in another order"),
        ([*COLUMNS[:-1], "C25"], "names the column 'C25' twice"),
        ([*COLUMNS[:-1], ""], "column 40 has no name"),
    ],
)
def test_other_columns_than_criteos_are_refused(tmp_path, header, said):
    write_csv(tmp_path / "criteo.csv", header, [[*row, "1"][: len(header)] for row in rows()])
    with pytest.raises(SplitbenchError, match=said):
        Criteo().load((tmp_path,))


@pytest.mark.parametrize(
    ("name", "contents", "said"),
    [
        ("criteo.csv.gz", b"label,I1\n", "cannot be read as a table"),
        ("criteo.csv.gz", gzip.compress(b"label,I1\n" * 99, mtime=0)[:-9], "cannot be read as a table"),
        ("criteo.csv", b"\xff\xfe\x00", "cannot be read as a table"),
        ("criteo.csv", b"", "is empty; its first row must name the columns"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, contents, said):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(SplitbenchError, match=f"{name} {said}"):
        Criteo().load((tmp_path,))


def test_it_says_where_the_logs_come_from(tmp_path):
    from splitbench.data._download.fetch import fetch

    with pytest.raises(SplitbenchError, match=r"Unpack train\.txt into .*/criteo"):
        fetch("criteo", tmp_path)


PEOPLE = [
    ["age", "town", "label", "height"],
    *(
        [str(20 + i), ("Rome", "Oslo", "")[i % 3], ("no", "yes")[i % 2], "" if i == 3 else f"{1.5 + i / 50}"]
        for i in range(20)
    ),
]


def test_a_csv_with_a_label_is_a_table_of_numbers_and_categories(tmp_path):
    data = own(write_csv(tmp_path / "people.csv", PEOPLE[0], PEOPLE[1:]))
    assert (data.name, data.modality, data.classes, data.names) == ("people", "tabular", 2, ("no", "yes"))
    assert data.fields == (Field("age"), Field("town", 4), Field("height"))
    # The last fifth of each class: of ten rows each, the last two.
    assert data.train.y.tolist() == [0, 1] * 8
    assert data.test.y.tolist() == [0, 1] * 2
    ages = torch.arange(20.0, 36)
    torch.testing.assert_close(data.train.x[:, 0], (ages - ages.mean()) / ages.std(correction=0))
    torch.testing.assert_close(data.test.x[:, 0], (torch.arange(36.0, 40) - ages.mean()) / ages.std(correction=0))
    assert data.train.x[3, 2] == 0, "a missing number is the mean"
    # Six times Rome, five times Oslo, five times nothing, which comes before Oslo in the alphabet.
    assert data.train.x[:, 1].tolist() == ([1, 3, 2] * 6)[:16]


def test_a_compressed_csv_is_the_same_and_a_changed_one_another_version(tmp_path):
    path = write_csv(tmp_path / "people.csv", PEOPLE[0], PEOPLE[1:])
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert own(path).digest == own(packed).digest
    assert own(packed).name == "people"
    before = registry.load("data", str(path)).version
    write_csv(path, PEOPLE[0], PEOPLE[2:])
    assert registry.load("data", str(path)).version != before


def test_labels_that_are_numbers_keep_their_order(tmp_path):
    body = [[str(v), str(i)] for i, v in enumerate([10, 9, 2] * 6)]
    data = own(write_csv(tmp_path / "t.csv", ["label", "x"], body))
    assert data.names == ("2", "9", "10")
    assert data.train.y[:3].tolist() == [2, 1, 0]


def test_a_sorted_file_still_has_every_class_on_both_sides(tmp_path):
    body = [[str(i >= 10), str(i)] for i in range(20)]
    data = own(write_csv(tmp_path / "t.csv", ["label", "x"], body))
    assert set(data.train.y.tolist()) == set(data.test.y.tolist()) == {0, 1}


def test_a_column_that_does_not_vary_is_zero(tmp_path):
    body = [["ab"[i % 2], "0.1", str(i), f"{i}e-15"] for i in range(20)]
    data = own(write_csv(tmp_path / "t.csv", ["label", "same", "x", "small"], body))
    assert not data.train.x[:, 0].any()
    assert data.train.x[:, 1].std(correction=0) == pytest.approx(1)
    torch.testing.assert_close(data.train.x[:, 2], data.train.x[:, 1], msg="numbers have no natural size")


@pytest.mark.parametrize(
    ("header", "body", "said"),
    [
        (["lable", "x"], [["a", "1"]] * 9, "has no column 'label'; did you mean 'lable'"),
        (["label"], [["a"], ["b"]] * 9, "no column beside 'label'"),
        (["label", "x"], [["a", "1"]] * 9, "every row has the label 'a'"),
        (["label", "x"], [[str(i), "1"] for i in range(9)], "9 different labels in 9 rows"),
        (["label", "x"], [["a", "1"], ["", "2"], ["b", "1"]] * 3, "row 3, column 'label': the label is missing"),
        (["label", "x"], [["a", "1"], ["b", "1e400"]] * 9, "row 3, column 'x': the number is infinite"),
        (["label", "x"], [["a", "1"], ["b", "1e308"]] * 9, "column 'x': the numbers are too large"),
        (["label", "x"], [["a", "1"], ["b"]] * 9, "row 3: 1 cells, expected 2"),
        (["label", "x"], [], "holds no rows below its header"),
        (["label", "x", "x"], [["a", "1", "2"]] * 9, "names the column 'x' twice"),
    ],
)
def test_a_table_that_cannot_be_learned_from_says_why(tmp_path, header, body, said):
    with pytest.raises(SplitbenchError, match=said):
        own(write_csv(tmp_path / "t.csv", header, body))


def test_a_csv_that_is_not_there_is_an_error_with_the_nearest_name(tmp_path):
    write_csv(tmp_path / "people.csv", PEOPLE[0], PEOPLE[1:])
    with pytest.raises(SplitbenchError, match=r"no file or folder '.*poeple\.csv'; did you mean '.*people\.csv'"):
        registry.load("data", str(tmp_path / "poeple.csv"))


def test_the_digest_covers_inputs_labels_extras_fields_and_modality():
    def samples(**changes):
        return Samples(**{"x": torch.zeros(4, 2), "y": torch.zeros(4, dtype=torch.int64), **changes})

    fields = (Field("a"), Field("b", 3))
    base = DataSet("d", samples(), samples(), 2, modality="tabular", fields=fields)
    others = [
        replace(base, train=samples(x=torch.ones(4, 2))),
        replace(base, test=samples(y=torch.ones(4, dtype=torch.int64))),
        replace(base, train=samples(extras={"gender": torch.zeros(4)})),
        replace(base, train=samples(extras={"identity": torch.zeros(4)})),
        replace(base, train=samples(extras={"identity": torch.ones(4)})),
        replace(base, test=samples(extras={"identity": torch.ones(4)})),
        replace(base, fields=(Field("a"), Field("b", 4))),
        replace(base, fields=(Field("a"), Field("c", 3))),
        replace(base, modality="text"),
        replace(base, task="attributes"),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert replace(base, name="e", names=("x", "y")).digest == base.digest
    several = {"b": torch.ones(4), "a": torch.zeros(4)}
    one, other = (replace(base, train=samples(extras=dict(e))) for e in (several.items(), reversed(several.items())))
    assert one.digest == other.digest, "the order of extras means nothing"


@pytest.mark.parametrize("rows", [torch.tensor([2, 0]), torch.tensor([True, False, True])], ids=["numbers", "mask"])
def test_some_of_the_samples_keep_their_labels_and_extras(rows):
    whole = Samples(torch.arange(6).view(3, 2), torch.tensor([5, 6, 7]), {"identity": torch.tensor([1, 2, 3])})
    some = whole.take(rows)
    wanted = [2, 0] if rows.dtype == torch.int64 else [0, 2]
    assert some.x.tolist() == [[2 * i, 2 * i + 1] for i in wanted]
    assert some.y.tolist() == [5 + i for i in wanted]
    assert some.extras["identity"].tolist() == [1 + i for i in wanted]


def test_networks_are_given_images_in_zero_to_one_and_all_else_as_it_is():
    pixels = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    assert as_input(pixels)[0].tolist() == pytest.approx([0, 0.2, 1])
    assert pixels.tolist() == [[0, 51, 255]]
    for other in (torch.tensor([[3, 70_000]]), torch.tensor([[0.5, 300.0]])):
        assert as_input(other) is other
