"""How long work tells how far it is. The command line listens; elsewhere nothing happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Report = Callable[[str, int, int, str], None]  # what, done, total, a note such as the loss

_report: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def reporting(report: Report) -> Iterator[None]:
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def tell(what: str, done: int, total: int, note: str = "") -> None:
    report = _report.get()
    if report is not None:
        report(what, done, total, note)
