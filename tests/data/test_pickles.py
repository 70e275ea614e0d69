"""Nothing read from disk runs code."""

from __future__ import annotations

import codecs
import collections
import contextlib
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitbench.core.errors import SplitbenchError
from splitbench.data._formats import pickles as _pickles


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint8).reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=">i4").reshape(3, 4)),
        np.linspace(0, 1, 5),
        np.array([True, False]),
    ],
)
def test_arrays_and_plain_values_come_back_as_they_were(tmp_path, array, protocol):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({b"data": array, b"labels": [1, 2], b"name": b"\xff\x00"}, protocol=protocol))
    found = _pickles.read(path)
    assert np.array_equal(found["data"], array)
    assert (found["labels"], found["name"]) == ([1, 2], b"\xff\x00")


class Calls:
    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda mark: Calls(os.system, f"touch {mark}"), "system"),
        (lambda mark: Calls(eval, f"open({str(mark)!r}, 'w')"), "eval"),
        (lambda mark: Calls(getattr, "", "join"), "getattr"),
        (lambda mark: Calls(np.save, str(mark), 0), "save"),
        (lambda mark: Calls(np.load, str(mark)), "load"),
        (lambda mark: Calls(codecs.encode, "a", "rot13"), "the codec 'rot13'"),
        (lambda mark: collections.OrderedDict(), "OrderedDict"),
        (lambda mark: np.array([{}], dtype=object), "an array of 'O8'"),
        (lambda mark: np.zeros(1, [("a", "u1")]), "an array of 'V1'"),
    ],
)
def test_a_pickle_that_wants_more_is_refused_and_nothing_happens(tmp_path, make, named, protocol):
    mark = tmp_path / "mark"
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({b"data": make(mark)}, protocol=protocol))
    with pytest.raises(SplitbenchError, match="was not read: it asks for") as error:
        _pickles.read(path)
    assert named in str(error.value)
    assert not mark.exists()


def test_the_pickles_of_the_test_above_would_have_worked(tmp_path):
    pickle.loads(pickle.dumps(Calls(os.system, f"touch {tmp_path / 'mark'}")))
    assert (tmp_path / "mark").exists()


WHOLE = pickle.dumps({b"data": np.zeros((2, 3), np.uint8), b"labels": [1, 2]}, protocol=2)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=4))
def test_a_scrambled_pickle_is_read_or_called_unreadable(tmp_path_factory, place, noise):
    path = tmp_path_factory.getbasetemp() / "scrambled"
    path.write_bytes(WHOLE[:place] + noise + WHOLE[place + len(noise) :])
    with contextlib.suppress(SplitbenchError):
        assert isinstance(_pickles.read(path), dict)
