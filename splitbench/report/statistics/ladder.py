"""More knowledge of a defense must not do worse: where it does, the attack was badly built for that defense."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import numpy as np

from splitbench.core.threat import KNOWLEDGE
from splitbench.store.outcome import Outcome

_ROUNDING = 1e-9  # 0.50 - 0.48 is a little more than 0.02


def falls(outcomes: Iterable[Outcome], metric: str = "") -> dict[str, str]:
    """Outcomes, by key, that leak less than the same attack knowing less of the same defense, and a sentence of each.

    Two rungs are compared by their means over the seeds that both have, in the metric that ranks if none is given. Of
    several lower rungs that leak more, the sentence names the one that leaks most.
    """
    ladders: dict[tuple[str, str], dict[str, dict[int, Outcome]]] = {}
    for outcome in outcomes:
        name = metric or outcome.ranking
        if outcome.kind == "attack" and outcome.status == "done" and outcome.score(name) is not None:
            rungs = ladders.setdefault((name, _but_for_rung_and_seed(outcome, name)), {})
            rungs.setdefault(outcome.knowledge, {})[outcome.seed] = outcome
    sentences: dict[str, str] = {}
    for (name, _), rungs in ladders.items():
        if len(rungs) < 2:
            continue
        score = next(iter(next(iter(rungs.values())).values())).score(name)
        assert score is not None
        for place, upper in enumerate(KNOWLEDGE):
            found = [_drop(rungs, lower, upper, name, score.sign) for lower in KNOWLEDGE[:place]]
            drop, sentence, keys = max(found, default=(0.0, "", ()))
            if drop > score.tolerance + _ROUNDING:
                sentences |= dict.fromkeys(keys, sentence)
    return sentences


def _but_for_rung_and_seed(outcome: Outcome, metric: str) -> str:
    cell = {
        **outcome.cell,
        "run": {k: v for k, v in outcome.cell["run"].items() if k != "seed"},
        "threat": {k: v for k, v in outcome.cell.get("threat", {}).items() if k != "knowledge"},
    }
    versions = [s.version for s in outcome.scores if s.metric == metric]
    return json.dumps([cell, versions], sort_keys=True)


def _drop(
    rungs: Mapping[str, Mapping[int, Outcome]], lower: str, upper: str, metric: str, upwards: int
) -> tuple[float, str, tuple[str, ...]]:
    """How much less the upper rung leaks, in words, and the outcomes this is about."""
    seeds = sorted(rungs.get(lower, {}).keys() & rungs.get(upper, {}).keys())
    if not seeds:
        return 0.0, "", ()
    less, more = (float(np.mean([rungs[r][seed].ranked[metric] for seed in seeds])) for r in (lower, upper))
    about = rungs[upper][seeds[0]]
    over = f" (means of {len(seeds)} seeds)" if len(seeds) > 1 else ""
    sentence = (
        f"not monotone in knowledge: {about.attack} on {about.defense} has {metric} {more:.3f} with knowledge={upper} "
        f"and {less:.3f} with knowledge={lower}{over}; more knowledge should never hurt the attacker, so this "
        "adaptive attack is badly built"
    )
    return upwards * (less - more), sentence, tuple(rungs[upper][seed].key for seed in seeds)
