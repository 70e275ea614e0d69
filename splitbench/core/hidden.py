"""Functions that an adversary may call and not look into."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_numbers = itertools.count()
_functions: dict[int, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Hidden(Generic[T]):
    """Holds a number and asks there, so that following its references never leads to what the function knows."""

    number: int

    @classmethod
    @contextmanager
    def open(cls, function: Callable[..., T]) -> Iterator[Hidden[T]]:
        """It can be called until the context ends."""
        number = next(_numbers)
        _functions[number] = function
        try:
            yield cls(number)
        finally:
            del _functions[number]

    def __call__(self, *arguments: Any) -> T:
        answer: T = _functions[self.number](*arguments)
        return answer
