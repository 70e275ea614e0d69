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
    x: Annotated[str, typer.Option("--x", help="Draw curves along this axis, e.g. defense.seal.omega.")] = "",
    lines: Annotated[str, typer.Option(help="With --x: what each line is (default: attack).")] = "",
    metric: Annotated[str, typer.Option(help="With --x: a metric or a cost (default: what ranks the goal).")] = "",
    where: Annotated[list[str] | None, typer.Option(help="With --x: keep only, e.g. dataset=cifar10.")] = None,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Draw what attacks recovered below the originals, or curves along a setting.

    A panel for each data set, defense and rung of knowledge. A recipe whose paper has a curve, and --x, draw curves;
    one whose paper has a gallery, losses or position embeddings draws these.
    """
    mistakes = check_picture(output, "--output")
    if mistakes:
        raise SplitbenchError(mistakes)
    if (lines or metric or where) and not x:
        raise SplitbenchError("--lines, --metric and --where go with --x, the x axis of the curves")

    from splitbench.report.tables.paper_table import block_of
    from splitbench.store.store import Store

    paper = block_of(recipe, store, scale)
    plan = Store(store).plan(recipe, scale)
    title = f"{plan['title'] if plan else recipe} (scale {scale})"
    if x or paper.layout == "curve":
        from splitbench.cli.table import tables
        from splitbench.report.curve_figure import draw_curves
        from splitbench.report.tables.curve import Curve

        made = tables(recipe, scale, x, lines, metric, where, store, curve=True)
        curves = [curve for curve in made if isinstance(curve, Curve)]
        draw_curves(output, curves, title)
        panels = [curve.caption for curve in curves]
        problems = list(dict.fromkeys(note for curve in curves for note in curve.notes))
    elif paper.layout == "losses":
        from splitbench.report.loss_figure import draw_losses, losses

        histories, problems = losses(paper, store=store, scale=scale)
        draw_losses(output, histories, title)
        panels = [history.dataset for history in histories]
    elif paper.layout == "positions":
        from splitbench.report.position_figure import draw_positions, positions, told

        maps, problems = positions(paper, store=store, scale=scale)
        draw_positions(output, maps, title)
        panels = [f"{one.title}: {told(one)}" for one in maps]
    elif paper.layout == "gallery":
        from splitbench.report.figure import draw
        from splitbench.report.gallery_figure import gallery

        shown, problems = gallery(paper, store=store, scale=scale, images=images)
        draw(output, shown, title)
        panels = [panel.title for panel in shown]
    else:
        from splitbench.report.figure import draw
        from splitbench.report.figure import figure as make

        shown, problems = make(recipe, store=store, scale=scale, images=images)
        draw(output, shown, title)
        panels = [panel.title for panel in shown]
    for problem in problems:
        err().print(f"  {problem}", markup=False, soft_wrap=True)
    if json:
        print_json({"file": str(output), "panels": panels, "problems": problems})
    else:
        out().print(f"[bold]{output}[/]  {len(panels)} {'panel' if len(panels) == 1 else 'panels'}", soft_wrap=True)
