"""What a reader can mend, said so that it can be mended."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong, and where."""

    where: str
    what: str
    line: int | None = None


class SplitbenchError(Exception):
    """Something the reader can mend. The command line prints it without a traceback and exits with 2."""

    def __init__(self, what: str | Iterable[Mistake], source: str = "") -> None:
        self.source = source
        self.mistakes = (Mistake("", what),) if isinstance(what, str) else tuple(what)
        super().__init__(self._text())

    def _text(self) -> str:
        if len(self.mistakes) == 1 and not self.source and not self.mistakes[0].where:
            return self.mistakes[0].what
        places = [f"{m.where} (line {m.line})" if m.line else m.where for m in self.mistakes]
        width = max(map(len, places))
        lines = [f"  {place:<{width}}  {m.what}".rstrip() for place, m in zip(places, self.mistakes, strict=True)]
        count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        head = [self.source] if self.source else []
        return "\n".join([*head, *lines, f"{count}. Nothing was run."])


class CellError(Exception):
    """A cell cannot be finished (NaN in training, say). It becomes a `failed` row and the rest goes on."""


def nearest(name: str, options: Iterable[str]) -> str:
    """A sentence ending that names the likeliest spelling, or what there is to choose from."""
    known = sorted(options)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; there is {', '.join(known)}" if known else ""
