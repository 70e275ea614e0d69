"""splitbench evaluate"""

from __future__ import annotations

import typer
from rich.table import Table

from splitbench.cli._output import Json, RunId, StorePath, out, print_json, showing_progress


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
        first = outcomes[0]
        table = Table(title=f"run {first.run}: {first.dataset} · {first.model} cut at {first.cut} · {first.defense}")
        for heading in ("what", "metric", "readout", "value", "n"):
            table.add_column(heading, justify="right" if heading in ("value", "n") else "left")
        for row in rows:
            table.add_row(
                str(row["what"]),
                f"{row['metric']}@{row['version']}",
                str(row["readout"]),
                f"{row['value']:.4f}",
                str(row["n"]),
            )
        out().print(table)
        for o in missing:
            out().print(f"{o.attack} {o.status}: {o.reason}")
    raise typer.Exit(1 if any(o.status == "failed" for o in missing) else 0)
