"""How long work tells how far it is and shows what it has, and how it is told to stop. Where nobody listens,
nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Report = Callable[[str, int, int, str], None]  # what, done, total, a note such as the loss
Look = Callable[[str, "Tensor"], None]  # when, and the guesses so far


@dataclass
class Budget:
    """Minutes for work of so many iterations; each loop gets the share that its iterations are of them."""

    minutes: float
    iterations: int
    spent: bool = False  # whether a loop was stopped by it


_report: ContextVar[Report | None] = ContextVar("report", default=None)
_look: ContextVar[Look | None] = ContextVar("look", default=None)
_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    with _set(_report, report):
        yield


@contextmanager
def watching(look: Look) -> Iterator[None]:
    with _set(_look, look):
        yield


@contextmanager
def limited(budget: Budget | None) -> Iterator[None]:
    with _set(_budget, budget):
        yield


@contextmanager
def _set(variable: ContextVar[T | None], value: T | None) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def tell(what: str, done: int, total: int, note: str = "") -> None:
    report = _report.get()
    if report is not None:
        report(what, done, total, note)


def show(when: str, guess: Callable[[], Tensor]) -> None:
    """A look at the guesses so far, which are made only if somebody watches."""
    look = _look.get()
    if look is not None:
        look(when, guess())


class steps:  # noqa: N801  # read as `for step in steps(...)`
    """The numbers of a loop's steps, told as they pass; fewer if there is a budget and it is spent."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self._seen: tuple[str, Tensor] | None = None

    def saw(self, name: str, value: Tensor) -> None:
        """A number to be told beside; looked at only when it is."""
        self._seen = name, value

    def __iter__(self) -> Iterator[int]:
        budget, begun = _budget.get(), time.monotonic()
        seconds = 60 * budget.minutes * self.total / max(budget.iterations, 1) if budget is not None else float("inf")
        for step in range(self.total):
            if time.monotonic() - begun > seconds:
                assert budget is not None
                budget.spent = True
                break
            yield step
            if step % 10 == 9:
                tell(self.what, step + 1, self.total, self._note())
        tell(self.what, self.total, self.total, self._note())

    def _note(self) -> str:
        return f"{self._seen[0]} {self._seen[1].detach().mean().item():.4f}" if self._seen is not None else ""
