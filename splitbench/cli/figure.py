"""splitbench figure"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from splitbench.cli._output import Json, Scale, StorePath, check_picture, err, out, print_json
from splitbench.core.errors import SplitbenchError


def figure(
    recipe: Annotated[str, typer.Argument(help="A recipe that was run, e.g. seal/figure2.")],
    scale: Scale = "desk",
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png or .svg file to write.")] = Path("figure.png"),
    images: Annotated[int, typer.Option(help="How many images of each attack.")] = 6,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Draw what attacks recovered below the originals, a panel for each data set, defense and rung of knowledge."""
    mistakes = check_picture(output, "--output")
    if mistakes:
        raise SplitbenchError(mistakes)

    from splitbench.report.figure import draw
    from splitbench.report.figure import figure as make
    from splitbench.store.store import Store

    panels, problems = make(recipe, store=store, scale=scale, images=images)
    plan = Store(store).plan(recipe, scale)
    draw(output, panels, f"{plan['title'] if plan else recipe} (scale {scale})")
    for problem in problems:
        err().print(f"  {problem}", markup=False, soft_wrap=True)
    if json:
        print_json({"file": str(output), "panels": [panel.title for panel in panels], "problems": problems})
    else:
        out().print(f"[bold]{output}[/]  {len(panels)} panels", soft_wrap=True)
