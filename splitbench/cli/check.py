"""splitbench check"""

from __future__ import annotations

from typing import Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath, out, print_json


def check(
    recipe: Annotated[str, typer.Argument(help="A recipe of ours or a YAML file.")],
    scale: Scale = "desk",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Check a recipe as `run` does before the first training: all its mistakes at once."""
    from splitbench.runner import api

    plan = api.check(recipe, scale=scale, store=store)
    if json:
        print_json({"recipe": plan.recipe.name, "scale": scale, "cells": len(plan.recipe.cells), "done": plan.done,
                    "skipped": dict(plan.skipped)})  # fmt: skip
        return
    out().print(f"{plan.recipe.name} at scale {scale} is sound: {len(plan.recipe.cells)} cells, {plan.done} done, "
                f"{plan.to_run} to run, {len(plan.skipped)} to be skipped")  # fmt: skip
    for cell, reason in plan.skipped.items():
        out().print(f"  skipping {cell}: {reason}")
