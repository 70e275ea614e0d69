"""splitbench diff"""

from __future__ import annotations

from typing import Annotated

import typer

from splitbench.cli._output import Json, StorePath
from splitbench.cli._sheet import Format, form_of, print_sheets


def diff(
    left: Annotated[str, typer.Argument(help="A run (id, prefix, latest, or STORE:RUN), or the folder of a store.")],
    right: Annotated[str, typer.Argument(help="Another of the same kind.")],
    format: Format = "text",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Compare two runs or two stores: settings, metrics with a test, and reconstructions."""
    from splitbench.report.diff import diff as compare

    form = form_of(format, json)
    print_sheets(compare(left, right, store=store).sheets(), form)
