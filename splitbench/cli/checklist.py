"""splitbench checklist"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from splitbench.cli._output import Json, StorePath, print_json


def checklist(
    run: Annotated[str, typer.Argument(help="A run id, a unique prefix of one, or 'latest'.")] = "latest",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Fill the checklist of an adaptive evaluation from the store, as Markdown; what is unanswered is listed."""
    from splitbench.report.checklist import checklist as fill

    filled = fill(run, store=store)
    if json:
        print_json(asdict(filled))
    else:
        typer.echo(filled.markdown(), nl=False)
