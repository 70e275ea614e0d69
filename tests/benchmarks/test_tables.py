"""Tables of a large store: `pytest tests/benchmarks/test_tables.py -n 0 --benchmark-only -s`.

Meant for stores of 1,000 runs and 100,000 metric rows. Here is a twentieth of that, and ratios instead of seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from splitbench.report.tables.table import table
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store
from tests.benchmarks._least import seconds
from tests.report._large import make


def test_what_was_read_once_is_read_many_times_faster(benchmark: Any, tmp_path: Path) -> None:
    assert make(tmp_path, 56) > 4_500
    paths = sorted((tmp_path / "outcomes").glob("*.parquet"))
    store = Store(tmp_path)
    store.outcomes()
    files = seconds(lambda: [Outcome.read(path) for path in paths], 1)
    indexed = seconds(store.outcomes)
    asked = seconds(lambda: table(store=tmp_path, where={"dataset": "data1"}))
    benchmark.pedantic(store.outcomes, rounds=1)
    print(f"\n{len(paths)} outcomes: the index is {files / indexed:.0f} times faster than the files; a table takes "
          f"{asked / indexed:.1f} times what reading takes")  # fmt: skip
    benchmark.extra_info.update(ratio=files / indexed)
    assert files / indexed >= 5
    assert asked / indexed <= 4
