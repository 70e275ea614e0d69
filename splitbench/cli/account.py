"""splitbench account"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from splitbench.cli._output import Json, out, print_json
from splitbench.privacy.permutations import Account

app = typer.Typer(help="What is proven about a defense, and what the proof rests on.", no_args_is_help=True)


@app.callback()
def account() -> None:
    """One command per notion of privacy."""


@app.command()
def permutations(
    patches: Annotated[int, typer.Option(help="Patches of an image.")] = 196,
    batch: Annotated[int, typer.Option(help="Images of a batch.")] = 50,
    k: Annotated[float, typer.Option(help="The share of its patches that batch shuffling leaves with an image.")] = 0.4,
    json: Json = False,
) -> None:
    """How many orders shuffling chooses from, beside how many comparisons a jigsaw solver makes.

    The numbers of orders are those of the patch shuffling paper (equations 7 and 8). They measure a search that tries
    whole orders; a solver that merges patches by their borders compares pairs.
    """
    found = Account.of(patches, batch, k)
    if json:
        print_json(
            {**asdict(found), "more_permutations": found.more_permutations, "smaller_share": found.smaller_share}
        )
        return
    rows = (
        ("orders of one image, N!", f"10^{found.permutations:,.1f}", f"{found.bits:,.0f} bits"),
        ("orders of a batch (equation 7)", f"10^{found.equation_7:,.1f}", f"{found.batch_bits:,.0f} bits"),
        ("those with a given image in its place (equation 8)", f"10^{found.equation_8:,.1f}", ""),
        ("their share (equation 8 / equation 7)", f"10^{found.share:,.1f}", _against(found)),
        ("comparisons of borders, to solve one image", f"{found.comparisons:,}", "2 N (N - 1)"),
        ("comparisons of borders, to solve the batch", f"{found.batch_comparisons:,}", "2 B N (B N - 1)"),
    )
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(style="dim")
    for row in rows:
        grid.add_row(*row)
    out().print(f"{patches} patches, batches of {batch}; k = {k:g} leaves {found.kept} of them with their image")
    out().print(grid)


def _against(found: Account) -> str:
    return f"{'below' if found.smaller_share else 'equal to'} 1 / N! = 10^{-found.permutations:,.1f}"
