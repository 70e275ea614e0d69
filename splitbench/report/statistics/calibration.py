"""An attack that fails where nothing defends proves nothing about a defense, nor does a network that never learned."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from splitbench.store.outcome import Outcome, Score

Bars = tuple[tuple[str, float], ...]
NO_BARS: Mapping[str, Bars] = MappingProxyType({})


def planned_bars(*plans: Mapping[str, Any]) -> dict[str, Bars]:
    """The utility that each undefended training must reach, by the key of each cell: in the first plan that has it."""
    found: dict[str, Bars] = {}
    for plan in reversed(plans):
        for key, bars in zip(plan["cells"], plan.get("bars", ()), strict=False):
            if bars:
                found[key] = tuple((str(metric), float(value)) for metric, value in bars.items())
    return found


def doubt(outcome: Outcome, rows: Mapping[str, Outcome]) -> str:
    """Why an attack says nothing about the defense, or nothing if it does. `rows` has its twin, by key."""
    if outcome.kind != "attack":
        return ""
    return _missed(outcome.bars, rows.get(outcome.twin), f"undefended, {outcome.label}", "its bar")


def utility_doubt(outcome: Outcome, rows: Mapping[str, Outcome], planned: Mapping[str, Bars] = NO_BARS) -> str:
    """Why the task's utility says nothing about the defense: the undefended training is below its bar, or at chance."""
    trained = outcome if outcome.kind == "train" else rows.get(outcome.run)
    if trained is None:
        return ""
    bars = planned.get(outcome.key) or planned.get(trained.key) or trained.bars
    bare = trained if trained.defense == "none" else rows.get(trained.twin)
    said = did_not_learn(bare) if bare is not None else ""
    return f"uncalibrated: {said}" if said else _missed(bars, bare, "the undefended training", "the bar")


def did_not_learn(trained: Outcome) -> str:
    """In words, of an undefended training that is no better than always answering the commonest label."""
    score = trained.score(trained.ranking)
    if trained.defense != "none" or not trained.at_chance or score is None:
        return ""
    return (
        f"the undefended training did not learn: {score.metric} {score.value:.3f}, and always answering the commonest "
        f"label gives {trained.costs['chance']:.3f}"
    )


def reaches(score: Score, bar: float) -> bool:
    return score.sign * score.value >= score.sign * bar


def _missed(bars: Bars, twin: Outcome | None, who: str, whose: str) -> str:
    """The first bar that the twin does not reach, in words."""
    for metric, bar in bars:
        score = twin.score(metric) if twin is not None and twin.status == "done" else None
        if score is None or not reaches(score, bar):
            reached = "was not run" if score is None else f"reaches {metric} {score.value:.3f}"
            return f"uncalibrated: {who} {reached}; {whose} is {bar:g}"
    return ""
