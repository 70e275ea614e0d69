"""splitbench evaluate"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from splitbench.cli._output import Json, RunId, StorePath, out, print_json, showing_progress

if TYPE_CHECKING:
    from splitbench.report.statistics.worst import Worst
    from splitbench.store.outcome import Outcome

METRIC = "ssim"  # of the worst case


def evaluate(run: RunId = "latest", store: StorePath = None, json: Json = False) -> None:
    """Utility and every privacy metric of a run, beside the attackers that look at nothing."""
    from splitbench.report.statistics.worst import looking, worst
    from splitbench.runner import api

    with showing_progress():
        outcomes = api.evaluate(run=run, store=store)
    rows = [
        {
            "run": o.run,
            "what": o.adversary or "task",
            "metric": s.metric,
            "version": s.version,
            "readout": s.readout,
            "value": s.value,
            "n": s.n,
        }
        for o in outcomes
        for s in o.scores
    ]
    mounted = looking(outcomes)
    found = worst(mounted, METRIC) if len(mounted) > 1 else None
    missing = [o for o in outcomes if o.status != "done"]
    if json:
        print_json(
            {
                "rows": rows,
                "worst_case": _worst(found) if found else None,
                "missing": [{"what": o.adversary, "status": o.status, "reason": o.reason} for o in missing],
            }
        )
    else:
        _print(outcomes)
        for o in missing:
            out().print(f"{o.adversary} {o.status}: {o.reason}")
        if found:
            out().print(_worst_line(found))
    raise typer.Exit(1 if any(o.status == "failed" for o in missing) else 0)


def _print(outcomes: list[Outcome]) -> None:
    """One row an attack, in the read-out that ranks; `--json` has the other one too."""
    task, *attacks = outcomes
    out().print(f"run [bold]{task.run}[/]  {task.dataset} · {task.model} cut at {task.cut} · {task.defense}")
    out().print("task  " + "  ".join(f"{s.metric}@{s.version} {s.value:.4f}" for s in task.scores))
    done = [o for o in attacks if o.status == "done"]
    names = list(dict.fromkeys(f"{s.metric}@{s.version}" for o in done for s in o.scores))
    table = Table()
    table.add_column("attack")
    for name in names:
        table.add_column(name, justify="right")
    for outcome in done:
        ranked: dict[str, str] = {}
        for s in outcome.scores:
            ranked.setdefault(f"{s.metric}@{s.version}", f"{s.value:.4f}")
        table.add_row(outcome.adversary, *(ranked.get(name, "") for name in names))
    out().print(table)


def _worst(found: Worst) -> dict[str, Any]:
    import numpy as np

    from splitbench.report.statistics.interval import half_width

    values = np.array(found.values)
    return {
        "metric": METRIC,
        "value": float(values.mean()) if found.values else None,
        "half_width_95": half_width(values),
        "n": len(values),
        "won": found.won,
        "left_out": [{"what": name, "reason": why} for name, why in found.left_out],
        "outcomes": found.keys,
    }


def _worst_line(found: Worst) -> str:
    """The image-by-image maximum over the attacks that look, and whose it is."""
    said = _worst(found)
    without = "; leaves out " + ", ".join(f"{name} ({why})" for name, why in found.left_out) if found.left_out else ""
    if said["value"] is None:
        return f"worst case  none{without}"
    interval = "" if said["half_width_95"] is None else f" ±{said['half_width_95']:.3f}"
    won = ", ".join(f"{name} on {count}" for name, count in found.won.items())
    return f"worst case  {METRIC} {said['value']:.3f}{interval} over {said['n']} images, won by {won}{without}"
