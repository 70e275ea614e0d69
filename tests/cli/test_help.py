"""Help is instant and complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ["train", "attack", "evaluate", "profile", "table", "figure", "report", "claims", "diff", "checklist",
            "export", "verify", "run", "check", "ls", "show", "account", "account permutations", "data", "data fetch",
            "doctor"]  # fmt: skip
# Asked in a fresh process: what is loaded, and the processor time from its very start, which other work on the
# machine does not change.
PROBE = """
import sys, time
sys.argv = ["splitbench", *{arguments!r}]
from splitbench.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("SECONDS", time.process_time())
print("HEAVY", [m for m in ("torch", "timm", "pandas", "transformers", "matplotlib") if m in sys.modules])
"""


def ask(*arguments: str) -> tuple[float, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(arguments=list(arguments))], capture_output=True, text=True, check=True
    )
    assert "HEAVY []" in done.stdout
    seconds = next(line for line in done.stdout.splitlines() if line.startswith("SECONDS"))
    return float(seconds.split()[1]), done.stdout


BARE = "import typer, rich.console, rich.table, time; print(time.process_time())"


@pytest.fixture(scope="module")
def bare() -> float:
    """What the libraries that print help take by themselves, on this machine and now."""
    return min(float(subprocess.check_output([sys.executable, "-c", BARE], text=True)) for _ in range(3))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_answers_at_once_without_torch(command: str, bare: float) -> None:
    seconds, out = min((ask(*command.split(), "--help") for _ in range(2)), key=lambda answer: answer[0])
    assert "Usage" in out
    assert seconds < 8 * bare  # four, as a rule; torch alone would be more than ten


def test_help_lists_the_settings_of_the_component_named() -> None:
    _, out = ask("train", "--defense", "gaussian", "--help")
    assert "--sigma" in out
    assert "noise" in out.lower()
    assert "--sigma" not in ask("train", "--help")[1]
    assert "--steps" in ask("attack", "inversion", "--help")[1]


TABLE = """
import sys
import splitbench
from splitbench.core.errors import SplitbenchError
try:
    splitbench.table(store={store!r})
except SplitbenchError as error:
    assert "nothing to show" in str(error)
else:
    raise AssertionError("an empty store has no table")
assert "torch" not in sys.modules
"""


def test_table_needs_no_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TABLE.format(store=str(tmp_path))], check=True, timeout=60)
