"""The loss of a training epoch by epoch, as its run folder keeps it."""

from __future__ import annotations

import json
import math

from splitbench.store.outcome import Outcome
from splitbench.store.store import Store


def losses_of(store: Store, run: Outcome, problems: list[str]) -> list[float]:
    """Nothing where the folder is gone, or a loss is not finite."""
    path = store.run_folder(run.run) / "history.json"
    if not path.parent.is_dir():
        return []
    try:
        losses = [float(v) for v in json.loads(path.read_text(encoding="utf-8"))["loss"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problems.append(f"trained/{run.run}/history.json cannot be read ({type(error).__name__}): no curve of it")
        return []
    return losses if all(map(math.isfinite, losses)) else []
