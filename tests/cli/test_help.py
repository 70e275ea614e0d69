"""Help is instant and complete."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = ["train", "attack", "evaluate", "table", "run", "check", "ls", "show", "data", "data fetch", "doctor"]
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


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_answers_at_once_without_torch(command: str) -> None:
    seconds, out = min((ask(*command.split(), "--help") for _ in range(2)), key=lambda answer: answer[0])
    assert "Usage" in out
    assert seconds < 0.5


def test_help_lists_the_settings_of_the_component_named() -> None:
    _, out = ask("train", "--defense", "gaussian", "--help")
    assert "--sigma" in out
    assert "noise" in out.lower()
    assert "--sigma" not in ask("train", "--help")[1]
    assert "--steps" in ask("attack", "inversion", "--help")[1]


def test_table_needs_no_torch(tmp_path: object) -> None:
    script = (
        "import sys\n"
        "import splitbench\n"
        "from splitbench.core.errors import SplitbenchError\n"
        f"try:\n    splitbench.table(store={str(tmp_path)!r})\nexcept SplitbenchError as e:\n    assert 'nothing to show' in str(e)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
