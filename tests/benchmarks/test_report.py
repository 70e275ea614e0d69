"""The report on a large store: `pytest tests/benchmarks/test_report.py -n 0 --benchmark-only -s`.

Meant for stores of 1,000 runs and 100,000 metric rows. Here is a part of that, and ratios instead of seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from splitbench.report.page.page import report
from splitbench.store.store import Store
from tests.benchmarks._least import seconds
from tests.report._large import make


def test_a_report_takes_as_long_as_there_are_rows_and_a_few_times_what_reading_takes(
    benchmark: Any, tmp_path: Path
) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    make(few, 40)
    make(many, 160)
    for store in (few, many):
        Store(store).outcomes()  # leaves the index
    read = seconds(Store(many).outcomes, 2)
    short, long = seconds(lambda: report(few), 2), seconds(lambda: report(many), 2)
    benchmark.pedantic(lambda: report(few), rounds=1)
    print(f"\nfour times the rows take {long / short:.1f} times as long, {long / read:.1f} times what reading takes")
    benchmark.extra_info.update(growth=long / short, over_reading=long / read)
    assert long / short <= 7
    assert long / read <= 15
