"""splitbench evaluate"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from splitbench.cli._output import DeviceName, Json, RunId, StorePath, out, print_json, showing_progress
from splitbench.core.goal import GOALS

if TYPE_CHECKING:
    from splitbench.report.statistics.worst import Worst
    from splitbench.store.outcome import Outcome, Score


def evaluate(run: RunId = "latest", device: DeviceName = "", store: StorePath = None, json: Json = False) -> None:
    """Utility and every privacy metric of a run, beside blind guesses."""
    from splitbench.report.statistics.calibration import did_not_learn
    from splitbench.report.statistics.worst import by_goal, looking, worst
    from splitbench.runner import api

    with showing_progress():
        outcomes = api.evaluate(run=run, store=store, device=device)
    rows = [
        {
            "run": o.run,
            "what": o.adversary or "task",
            "goal": o.goal,
            "role": o.role,
            "metric": s.metric,
            "version": s.version,
            "readout": s.readout,
            "against": s.against,
            "value": s.value,
            "n": s.n,
        }
        for o in outcomes
        for s in o.scores
    ]
    found = {goal: worst(mounted) for goal, mounted in by_goal(looking(outcomes)).items() if len(mounted) > 1}
    missing = [o for o in outcomes if o.status != "done"]
    unlearned = [said for o in outcomes if (said := did_not_learn(o))]
    if json:
        print_json(
            {
                "rows": rows,
                "worst_case": {goal: _worst(one) for goal, one in found.items()},
                "missing": [{"what": o.adversary, "status": o.status, "reason": o.reason} for o in missing],
                "notes": unlearned,
            }
        )
    else:
        _print(outcomes)
        for note in unlearned:
            out().print(note)
        for o in missing:
            out().print(f"{o.adversary} {o.status}: {o.reason}")
        for goal, one in found.items():
            out().print(_worst_line(one, goal if len(found) > 1 else ""))
    raise typer.Exit(1 if any(o.status == "failed" for o in missing) else 0)


def _print(outcomes: list[Outcome]) -> None:
    """One row per attack, in the read-out that ranks; `--json` has the other one too."""
    from splitbench.report.statistics.worst import by_goal

    task, *attacks = outcomes
    out().print(f"run [bold]{task.run}[/]  {task.dataset} · {task.model} cut at {task.cut} · {task.defense}")
    out().print("task  " + "  ".join(f"{s.metric}@{s.version} {s.value:.4f}" for s in task.scores))
    done = [o for o in attacks if o.status == "done"]
    for goal, those in by_goal(done).items():
        _print_goal(those, f"recovering {GOALS[goal].recovers}" if goal in GOALS and goal != "inputs" else "")


def _print_goal(done: list[Outcome], title: str) -> None:
    names = list(dict.fromkeys(_named(s) for o in done for s in o.scores))
    table = Table(title=title or None, title_justify="left")
    table.add_column("attack")
    for name in names:
        table.add_column(name, justify="right")
    for outcome in done:
        ranked: dict[str, str] = {}
        for s in outcome.scores:
            ranked.setdefault(_named(s), f"{s.value:.4f}")
        table.add_row(outcome.adversary, *(ranked.get(name, "") for name in names))
    out().print(table)


def _named(score: Score) -> str:
    return f"{score.metric}@{score.version}" + (f"\nagainst the {score.against}" if score.against else "")


def _worst(found: Worst) -> dict[str, Any]:
    import numpy as np

    from splitbench.report.statistics.interval import half_width

    return {
        "metric": found.metric,
        "value": found.mean,
        "half_width_95": half_width(np.array(found.values)),
        "n": found.n,
        "as_a_whole": found.whole is not None,
        "won": found.won,
        "left_out": [{"what": name, "reason": why} for name, why in found.left_out],
        "outcomes": found.keys,
    }


def _worst_line(found: Worst, goal: str = "") -> str:
    """The maximum over the attacks that look, sample by sample or as a whole, and whose it is."""
    said = _worst(found)
    head = "worst case" + (f" of {goal}" if goal else "")
    without = "; leaves out " + ", ".join(f"{name} ({why})" for name, why in found.left_out) if found.left_out else ""
    if found.mean is None:
        return f"{head}  none{without}"
    interval = "" if said["half_width_95"] is None else f" ±{said['half_width_95']:.3f}"
    return f"{head}  {found.metric} {found.mean:.3f}{interval} over {found.n} {found.unit}s, {found.who()}{without}"
