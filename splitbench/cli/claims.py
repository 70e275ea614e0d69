"""splitbench claims"""

from __future__ import annotations

from typing import Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath
from splitbench.cli._sheet import Format, form_of, print_sheets


def claims(
    what: Annotated[str | None, typer.Argument(help="A paper (seal) or a recipe (seal/table2); default: all.")] = None,
    scale: Scale = "desk",
    format: Format = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 unless every claim holds.")] = False,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Judge what a paper's text claims on our rows: holds, fails, not separable, uncalibrated, or not run."""
    from splitbench.report.claims.judge import claims as judge
    from splitbench.report.claims.scorecard import scorecard

    form = form_of(format, json)
    scored, notes = judge(what, store=store, scale=scale)
    print_sheets([scorecard(scored, notes)], form)
    raise typer.Exit(1 if strict and any(s.verdict != "holds" for s in scored) else 0)
