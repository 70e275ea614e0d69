"""splitbench evaluate"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.table import Table

from splitbench.cli._output import Json, RunId, StorePath, out, print_json, showing_progress

if TYPE_CHECKING:
    from splitbench.bench.outcome import Outcome


def evaluate(run: RunId = "latest", store: StorePath = None, json: Json = False) -> None:
    """Utility and every privacy metric of a run, beside the attackers that look at nothing."""
    from splitbench.bench import calls

    with showing_progress():
        outcomes = calls.evaluate(run=run, store=store)
    rows = [
        {
            "run": o.run,
            "what": o.attack or "task",
            "metric": s.metric,
            "version": s.version,
            "readout": s.readout,
            "value": s.value,
            "n": s.n,
        }
        for o in outcomes
        for s in o.scores
    ]
    missing = [o for o in outcomes if o.status != "done"]
    if json:
        print_json(
            {"rows": rows, "missing": [{"what": o.attack, "status": o.status, "reason": o.reason} for o in missing]}
        )
    else:
        _print(outcomes)
        for o in missing:
            out().print(f"{o.attack} {o.status}: {o.reason}")
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
        table.add_row(outcome.attack, *(ranked.get(name, "") for name in names))
    out().print(table)
