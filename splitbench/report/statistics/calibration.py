"""An attack that fails where nothing defends proves nothing about a defense."""

from __future__ import annotations

from collections.abc import Mapping

from splitbench.store.outcome import Outcome


def doubt(outcome: Outcome, rows: Mapping[str, Outcome]) -> str:
    """Why the outcome says nothing about the defense, or nothing if it does. `rows` has its twin, by key."""
    twin = rows.get(outcome.twin)
    score = twin.score("ssim") if twin is not None and twin.status == "done" else None
    if not outcome.bar or (score is not None and score.value >= outcome.bar):
        return ""
    reached = "was not run" if score is None else f"reaches an SSIM of {score.value:.3f}"
    return f"uncalibrated: undefended, {outcome.attack} {reached}; its bar is {outcome.bar:g}"
