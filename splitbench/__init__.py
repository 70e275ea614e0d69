"""The benchmark for privacy in split learning.

Every command is one call: `splitbench.train`, `attack`, `evaluate`, `run`, `check`, `table`, `paper_table`, `claims`,
`diff`, `checklist` and `verify`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from splitbench.bench.calls import attack as attack
    from splitbench.bench.calls import check as check
    from splitbench.bench.calls import evaluate as evaluate
    from splitbench.bench.calls import run as run
    from splitbench.bench.calls import train as train
    from splitbench.bench.verify import verify as verify
    from splitbench.report.checklist import checklist as checklist
    from splitbench.report.claims import claims as claims
    from splitbench.report.diff import diff as diff
    from splitbench.report.paper_table import paper_table as paper_table
    from splitbench.report.table import table as table

__version__ = "0.1.0"

# Looked up when asked for: importing splitbench must not load torch.
_CALLS = {
    **dict.fromkeys(("train", "attack", "evaluate", "run", "check"), "splitbench.bench.calls"),
    "verify": "splitbench.bench.verify",
    **{name: f"splitbench.report.{name}" for name in ("table", "paper_table", "claims", "diff", "checklist")},
}


def __getattr__(name: str) -> Any:
    if name in _CALLS:
        return getattr(importlib.import_module(_CALLS[name]), name)
    raise AttributeError(f"module 'splitbench' has no attribute '{name}'")
