"""splitbench verify"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from splitbench.cli._output import Json, print_json


def verify(
    path: Annotated[Path, typer.Argument(help="A zip that `splitbench export` wrote.")],
    expect: Annotated[str, typer.Option("--expect", help="The digest that `export` printed, or its beginning.")] = "",
    json: Json = False,
) -> None:
    """Check that an exported zip is complete and unchanged. Lists what differs and exits with 1 if anything does."""
    from splitbench.report.tables.pages import markdown_of
    from splitbench.store.verify import verify as check

    found = check(path, expect, markdown_of)
    if json:
        print_json({**vars(found), "path": str(found.path), "whole": not found.problems})
    else:
        typer.echo(f"{path}: {found.kind} {found.what}, {found.files} files, {found.rows} rows, {found.runs} runs")
        for problem in found.problems:
            typer.echo(f"  {problem}")
        for name in found.missing:
            typer.echo(f"  missing since it was exported: {name}")
        for other in found.elsewhere:
            typer.echo(f"  made elsewhere: {other}")
        count = "1 problem" if len(found.problems) == 1 else f"{len(found.problems)} problems"
        typer.echo(f"{count}: do not trust it" if found.problems else f"complete and unchanged, digest {found.digest}")
    raise typer.Exit(1 if found.problems else 0)
