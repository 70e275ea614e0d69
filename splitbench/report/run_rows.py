"""The rows of one run, found by its id, a unique prefix of it, or `latest`; its folder need not be there."""

from __future__ import annotations

from collections.abc import Sequence

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store


def find_run(outcomes: Sequence[Outcome], given: str, store: Store) -> str:
    runs = list(dict.fromkeys(o.run for o in outcomes))
    if not runs:
        raise SplitbenchError(f"no rows in {store.path}; `splitbench train` makes some")
    if given == "latest":
        pointer = store.path / "latest"
        named = pointer.read_text().strip() if pointer.is_file() else ""
        return named if named in runs else max(outcomes, key=lambda o: o.created).run
    matches = [run for run in runs if given and run.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SplitbenchError(f"run id '{given}' is ambiguous: {', '.join(sorted(matches))}; give more characters")
    raise SplitbenchError(f"no run '{given}' in {store.path}{nearest(given, [*runs, 'latest'])}")


def rows_of(outcomes: Sequence[Outcome], run: str) -> list[Outcome]:
    """The training first, then the attacks in the order they were made."""
    return sorted((o for o in outcomes if o.run == run), key=lambda o: (o.kind != "train", o.created, o.key))
