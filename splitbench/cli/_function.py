"""splitbench show function"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from splitbench.cli._output import check_picture, out, print_json
from splitbench.core import registry
from splitbench.core.component import validated
from splitbench.core.errors import Mistake, SplitbenchError, nearest

if TYPE_CHECKING:
    from splitbench.methods.seal.function import Checked, Compaction, Maps

OPTIONS = ("size", "key", "over", "picture", "run")
CAVEAT = (
    "The paper's two conditions (integral 0, no zero node) are neither sufficient nor necessary for a basis; "
    "whether a function is valid is decided by what is needed."
)


def show_function(
    name: str | None, settings: Mapping[str, str], arguments: Sequence[str], store: str | None, json: bool
) -> None:
    """Check a function at several sizes, and draw it. Exits with 1 if it makes no basis at one of them."""
    unknown = [f"--{key}" for key in settings if key not in OPTIONS]
    if unknown:
        raise SplitbenchError(f"no option {unknown[0]}{nearest(unknown[0], [f'--{o}' for o in OPTIONS])}")
    if name is None:
        if settings:
            raise SplitbenchError(
                f"--{next(iter(settings))} applies to one function: name it, as in `show function cos`"
            )
        _list(json)
        return
    mistakes: list[Mistake] = []
    key, over = _seal(name, settings, mistakes)
    sizes = _sizes(_given_sizes(arguments), mistakes)
    picture = Path(settings["picture"]) if "picture" in settings else None
    mistakes += check_picture(picture, "--picture") if picture else []
    run = _run(settings["run"], store, mistakes) if "run" in settings else None
    if mistakes:
        raise SplitbenchError(mistakes)

    from splitbench.methods.seal import function as report

    drawn = name == "secret" and key is None
    if drawn:
        key = report.periodic().new_key()
    maps = _maps_of_run(run, store, sizes) if run else _untrained()
    sizes = sizes or maps.sizes or report.SIZES
    functions = {size: report.function_at(name, size, key) for size in sizes}
    rows = [report.check(function, size, over) for size, function in functions.items()]
    cosine = report.periodic().named("cos")
    tried: dict[int, tuple[Compaction | None, Compaction]] = {}
    for row in rows:
        x = maps.at(row.size)
        own = report.compaction(functions[row.size], x, over) if row.valid else None
        tried[row.size] = own, report.compaction(cosine, x)
    if json:
        print_json(_document(name, key, over, maps, rows, tried))
    else:
        _print(name, key, drawn, over, maps, rows, tried)
    if picture:
        from splitbench.methods.seal.function_picture import draw

        largest = max(sizes)
        draw(picture, functions[largest], next(r for r in rows if r.size == largest), *tried[largest], over, maps.about)
        if not json:
            out().print(f"picture: {escape(str(picture))}", soft_wrap=True)
    raise typer.Exit(0 if all(row.valid for row in rows) else 1)


def _seal(name: str, settings: Mapping[str, str], mistakes: list[Mistake]) -> tuple[int | None, str]:
    """The function, `--key` and `--over` are settings of SEAL, which knows what they may be."""
    seal: Any = registry.load("defenses", "seal")
    given = {setting: settings[setting] for setting in ("key", "over") if setting in settings}
    filled, wrong = validated(seal, given, "")
    mistakes += [Mistake(f"--{mistake.where}", mistake.what) for mistake in wrong]
    try:
        seal(function=name)
    except SplitbenchError as error:
        # A word is a name misspelt; anything else was meant as a sum.
        what = _misspelt(name) if name.isidentifier() else str(error)
        mistakes.append(Mistake("function", what))
    if "key" in settings and name != "secret":
        mistakes.append(Mistake("--key", f"is for the function 'secret'; '{name}' has none"))
    return filled.get("key"), filled.get("over", "rows")


def _misspelt(name: str) -> str:
    from splitbench.methods.seal.function import periodic

    known = [*periodic().CATALOGUE, "secret"]
    return f"no function named '{name}'{nearest(name, [k for k in known if name.startswith(k)] or known)}"


def _given_sizes(arguments: Sequence[str]) -> list[str]:
    """Every value of `--size`, which may be given several times."""
    found = []
    for at, token in enumerate(arguments):
        option, equals, value = token.partition("=")
        if option == "--size":
            found.append(value if equals else "".join(arguments[at + 1 : at + 2]))
    return [size.strip() for value in found for size in value.split(",")]


def _sizes(given: Sequence[str], mistakes: list[Mistake]) -> tuple[int, ...]:
    from splitbench.methods.seal.function import LARGEST

    for text in given:
        if not (text.isascii() and text.isdigit() and 2 <= int(text) <= LARGEST):
            mistakes.append(
                Mistake("--size", f"expected whole numbers from 2 to {LARGEST} such as 14,16, got '{text}'")
            )
    return () if mistakes else tuple(sorted({int(text) for text in given}))


def _run(given: str, store: str | None, mistakes: list[Mistake]) -> str:
    from splitbench.store.store import Store

    try:
        return Store(store).find_run(given)
    except SplitbenchError as error:
        mistakes += [Mistake("--run", mistake.what) for mistake in error.mistakes]
        return ""


def _untrained() -> Maps:
    from splitbench.runner.feature_maps import untrained

    return untrained()


def _maps_of_run(run: str, store: str | None, sizes: tuple[int, ...]) -> Maps:
    from splitbench.runner import runfolder
    from splitbench.runner.feature_maps import of_run
    from splitbench.store.store import Store

    maps = of_run(runfolder.load(Store(store), run))
    if sizes and sizes != maps.sizes:
        [size] = maps.sizes
        raise SplitbenchError(f"the feature maps of run {run} are {size} x {size}: say --size {size}, or leave it out")
    return maps


def _list(json: bool) -> None:
    from splitbench.methods.seal.function import SIZES, catalogue

    found = catalogue()
    if json:
        print_json({name: [_row(row) for row in rows] for name, rows in found.items()})
        return
    table = Table(
        "function", *(f"N = {size}" for size in SIZES), title="Periodic functions for SEAL", title_justify="left"
    )
    for name, rows in found.items():
        table.add_row(name, *(_short_verdict(row) for row in rows))
    out().print(table)
    out().print("Also: a sum of cosines such as 'cos(x)+0.9cos(2x)', or secret, drawn by a key.")
    out().print(CAVEAT)


def _short_verdict(row: Checked) -> str:
    published = f"[dim]the paper's rule {'holds' if row.published else 'fails'}[/]"
    if row.valid:
        return f"[green]valid[/], condition {row.condition:.2f}\n{published}"
    return f"[red]refused[/]: {escape(row.problems[0].split(',')[0])}\n{published}"


def _print(
    name: str,
    key: int | None,
    drawn: bool,
    over: str,
    maps: Maps,
    rows: Sequence[Checked],
    tried: Mapping[int, tuple[Compaction | None, Compaction]],
) -> None:
    console = out()
    for text in dict.fromkeys(row.function for row in rows):
        at = [str(row.size) for row in rows if row.function == text]
        where = "" if len(at) == len(rows) else f"  at N = {', '.join(at)}"
        console.print(f"f(x) = [bold]{escape(text)}[/]{where}", soft_wrap=True)
    if key is not None:
        how = "drawn now; keep it secret" if drawn else "of client 0"
        console.print(f"key {key} ({how}): splitbench train --defense seal --key {key} --over {over}", soft_wrap=True)
    console.print(_conditions(rows))
    console.print(f"Integral: as a share of the mean of |f|. Q: orthonormal over {over}.", soft_wrap=True)
    for row in rows:
        for problem in row.problems:
            console.print(f"refused at N = {row.size}: {escape(problem)}", soft_wrap=True)
    console.print(CAVEAT, soft_wrap=True)
    console.print()
    console.print(_kept(name, rows, tried))
    console.print(f"Of {escape(maps.about)}.", soft_wrap=True)


def _conditions(rows: Sequence[Checked]) -> Table:
    """Sizes side by side, so that it fits a narrow terminal."""
    from splitbench.methods.seal.function import periodic

    table = Table("")
    for row in rows:
        table.add_column(f"N = {row.size}", justify="right")

    def line(label: str, told: Callable[[Checked], str], last: bool = False) -> None:
        table.add_row(label, *map(told, rows), end_section=last)

    line("integral over a period [dim](paper: 0)[/]", lambda row: _number(row.integral))
    line("nodes where f is 0 [dim](paper: none)[/]", lambda row: f"{row.zero_nodes} of {row.size**2:,}")
    line("the paper's conditions", lambda row: "hold" if row.published else "fail", last=True)
    line("f(0) [dim](needed: not 0)[/]", lambda row: _number(row.first))
    line("length of the smallest row [dim](not 0)[/]", lambda row: _number(row.smallest_row))
    worst = f"{periodic().WORST_CONDITION:g}"
    line(
        f"condition number [dim](at most {worst})[/]",
        lambda row: f"{row.condition:.4g}" if row.condition < 1e12 else "infinite",
    )
    line("largest error of Q'Q = 1", lambda row: "–" if row.error is None else f"{row.error:.0e}", last=True)
    line("[bold]verdict[/]", lambda row: "[green]valid[/]" if row.valid else "[red]refused[/]")
    return table


def _number(value: float) -> str:
    """A sum of cosines is zero to rounding where it is zero."""
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"


def _kept(name: str, rows: Sequence[Checked], tried: Mapping[int, tuple[Compaction | None, Compaction]]) -> Table:
    from splitbench.methods.seal.function import OMEGAS

    table = Table(title="Coefficients kept: the median map (5 to 95 % of maps)", title_justify="left")
    table.add_column("N", justify="right")
    table.add_column("")
    for omega in OMEGAS:
        table.add_column(f"omega {omega}", justify="right", no_wrap=True)
    for row in rows:
        own, dct = tried[row.size]
        size = str(row.size)
        if name != "cos":
            table.add_row(size, "f", *(_range(*own.kept[omega]) if own else "–" for omega in OMEGAS))
            size = ""
        table.add_row(size, "DCT", *(_range(*dct.kept[omega]) for omega in OMEGAS), end_section=True)
    return table


def _range(median: int, low: int, high: int) -> str:
    return f"{median:,} ({low:,}–{high:,})"


def _document(
    name: str,
    key: int | None,
    over: str,
    maps: Maps,
    rows: Sequence[Checked],
    tried: Mapping[int, tuple[Compaction | None, Compaction]],
) -> dict[str, Any]:
    def kept(found: Compaction | None) -> dict[str, Any] | None:
        if found is None:
            return None
        return {str(o): dict(zip(("median", "p5", "p95"), counts, strict=True)) for o, counts in found.kept.items()}

    sizes = [_row(row) | {"kept": kept(tried[row.size][0]), "kept_dct": kept(tried[row.size][1])} for row in rows]
    return {"function": name, "key": key, "over": over, "maps": maps.about, "note": CAVEAT, "sizes": sizes}


def _row(row: Checked) -> dict[str, Any]:
    return {
        "size": row.size,
        "function": row.function,
        "published": {"integral": row.integral, "zero_nodes": row.zero_nodes, "hold": row.published},
        "needed": {
            "first": row.first,
            "smallest_row": row.smallest_row,
            "condition": row.condition if math.isfinite(row.condition) else None,
            "orthonormality_error": row.error,
        },
        "valid": row.valid,
        "problems": list(row.problems),
    }
