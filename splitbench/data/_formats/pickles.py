"""Read a pickled dictionary of plain values and numpy arrays, and nothing that could run code.

A pickle may only name the stand-ins below. Not even numpy's own functions are lent to it: a crafted dtype state
can make numpy treat numbers as pointers.
"""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from splitbench.core.errors import SplitbenchError

# What a scrambled pickle raises, besides UnpicklingError; the pickle module promises no shorter list.
_DAMAGED = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    MemoryError,
    OverflowError,
)


class _RefusedError(Exception):
    """Says what a pickle asked for."""


class _Kind:
    """Stands for numpy.dtype. Numbers only: objects and structures have no place in a data set."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        code = code.decode("latin1") if isinstance(code, bytes) else code
        if not re.fullmatch(r"[biuf][1248]", code):
            raise _RefusedError(f"an array of '{code}'")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in (">", b">"):
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """Stands for numpy.ndarray."""

    values = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        self.values = np.frombuffer(bytearray(raw), kind.dtype).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str | bytes = "latin1") -> bytes:
    """How Python 3 writes bytes in an old protocol. Other codecs can be made to do work."""
    if encoding not in ("latin1", b"latin1"):
        raise _RefusedError(f"the codec {encoding!r}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,  # numpy 1
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,  # numpy 2
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise _RefusedError(f"{module}.{name}")
        return _ADMITTED[module, name]


def read(path: Path) -> dict[str, Any]:
    """The dictionary in a file written by Python 2 or 3, whose keys come out as strings."""
    try:
        found = _Unpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except _RefusedError as error:
        raise SplitbenchError(f"{path} was not read: it asks for {error}, which plain data never needs") from error
    except (*_DAMAGED, OSError) as error:
        raise SplitbenchError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise SplitbenchError(f"{path} holds a {type(found).__name__}, not a dictionary")
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value.values
        if isinstance(value, _Array)
        else value
        for key, value in found.items()
    }
