"""The benchmark for privacy in split learning.

Every command is one call: `splitbench.train`, `attack`, `evaluate`, `run`, `check`, `table`, `paper_table`, `claims`,
`diff`, `checklist` and `verify`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from splitbench.report.checklist import checklist as checklist
    from splitbench.report.claims.judge import claims as claims
    from splitbench.report.diff import diff as diff
    from splitbench.report.tables.paper_table import paper_table as paper_table
    from splitbench.report.tables.table import table as table
    from splitbench.runner.api import attack as attack
    from splitbench.runner.api import check as check
    from splitbench.runner.api import evaluate as evaluate
    from splitbench.runner.api import run as run
    from splitbench.runner.api import train as train
    from splitbench.store.verify import verify as verify

__version__ = "0.1.0"

# Looked up when asked for: importing splitbench must not load torch.
_CALLS = {
    **dict.fromkeys(("train", "attack", "evaluate", "run", "check"), "splitbench.runner.api"),
    "verify": "splitbench.store.verify",
    **{name: f"splitbench.report.tables.{name}" for name in ("table", "paper_table")},
    "claims": "splitbench.report.claims.judge",
    **{name: f"splitbench.report.{name}" for name in ("diff", "checklist")},
}


def __getattr__(name: str) -> Any:
    if name in _CALLS:
        return getattr(importlib.import_module(_CALLS[name]), name)
    raise AttributeError(f"module 'splitbench' has no attribute '{name}'")
