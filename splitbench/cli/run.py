"""splitbench run"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from splitbench.cli._output import DeviceName, Json, Scale, StorePath, err, print_json, showing_progress
from splitbench.cli._sheet import print_sheets
from splitbench.cli.table import tables

if TYPE_CHECKING:
    from splitbench.runner.execute import Finished
    from splitbench.store.outcome import Outcome


def run(
    recipe: Annotated[str, typer.Argument(help="A recipe of ours (quickstart, seal/table2, ...) or a YAML file.")],
    scale: Scale = "desk",
    device: DeviceName = "",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Run all cells of a recipe: train, attack, evaluate. What is done is not run again, so it can be resumed."""
    from splitbench.core.progress import tell
    from splitbench.runner import api

    plan = api.check(recipe, scale=scale, store=store)
    total = len(plan.recipe.cells)
    err().print(f"{plan.recipe.name} at scale {scale}: {total} cells, {plan.done} done, {plan.to_run} to run, "
                f"{len(plan.skipped)} to be skipped")  # fmt: skip
    for cell, reason in plan.skipped.items():
        err().print(f"  skipping {cell}: {reason}")
    count = 0

    def done(finished: Finished) -> None:
        nonlocal count
        count += 1
        outcome = finished.outcome
        tell("cells", count, total)
        if not finished.reused:
            scores = "  ".join(f"{m} {v:.3f}" for m, v in sorted(outcome.ranked.items())) or outcome.reason
            err().print(f"  {count}/{total} {finished.cell}: {outcome.status}  {scores}")

    with showing_progress():
        tell("cells", 0, total)
        outcomes = api.run(plan, store=store, done=done, device=device)
    if json:
        print_json([_plain(outcome) for outcome in outcomes])
    else:
        print_sheets(tables(plan.recipe.name, scale, store=store), "text")
    raise typer.Exit(1 if any(o.status == "failed" for o in outcomes) else 0)


def _plain(outcome: Outcome) -> dict[str, Any]:
    kept = ("key", "run", "kind", "attack", "defense", "status", "reason")
    return {**{name: getattr(outcome, name) for name in kept}, "scores": outcome.ranked}
