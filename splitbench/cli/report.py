"""splitbench report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from splitbench.cli._output import Json, StorePath, err, out, print_json
from splitbench.core.errors import SplitbenchError


def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    gallery: Annotated[int, typer.Option(help="How many pairs of attack and defense to show pictures of.", min=0)] = 36,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Everything in the store as one HTML file that needs nothing else: the answer first, then the evidence."""
    from splitbench.report.page.page import report as make

    if output.is_dir():
        raise SplitbenchError(f"{output} is a folder; --output is the file to write")
    if not output.parent.is_dir():
        raise SplitbenchError(f"no folder {output.parent} to write {output.name} into")
    made = make(store, gallery=gallery)
    try:
        output.write_text(made.html, encoding="utf-8", newline="\n")
    except OSError as error:
        raise SplitbenchError(f"cannot write {output} ({error.strerror}); choose another file with --output") from error
    for problem in made.problems:
        err().print(f"  {problem}", markup=False, soft_wrap=True)
    size = output.stat().st_size
    if json:
        print_json(
            {"file": str(output), "bytes": size, "rows": made.rows, "runs": made.runs, "galleries": made.pictures,
             "problems": list(made.problems)}
        )  # fmt: skip
        return
    pictures = "1 gallery" if made.pictures == 1 else f"{made.pictures} galleries"
    large = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    said = f"{made.rows} rows of {made.runs} runs, {pictures}, {large}"
    out().print(f"[bold]{output}[/]  {said}", soft_wrap=True)
