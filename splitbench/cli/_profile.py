"""How profiles are printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from splitbench.cli._output import err, out, print_json, showing_progress
from splitbench.cli._sheet import print_sheets
from splitbench.core.errors import SplitbenchError

if TYPE_CHECKING:
    from splitbench.edge.budget import Choice
    from splitbench.edge.case import Case
    from splitbench.edge.device import Device
    from splitbench.edge.measure import Measured
    from splitbench.edge.profile import Profile


def print_grids(grids: Sequence[Sequence[Any]], form: str) -> None:
    """Each a title, columns of which the first holds names, rows and perhaps notes."""
    from splitbench.report.tables.sheet import Sheet, Shown

    print_sheets(
        [
            Sheet(
                title,
                "",
                (columns[0],),
                tuple((row[0],) for row in rows),
                tuple((column,) for column in columns[1:]),
                tuple(tuple(map(Shown, row[1:])) for row in rows),
                tuple(*notes),
                tuple(dict(zip(columns, row, strict=True)) for row in rows),
            )
            for title, columns, rows, *notes in grids
        ],
        form,
    )


def profiled(cases: Sequence[Case], device: Device) -> list[Profile]:
    """Every case on the device; of many, one that is impossible is reported and left out."""
    from splitbench.core.errors import CellError
    from splitbench.core.progress import tell
    from splitbench.edge.profile import profile

    made: list[Profile] = []
    with showing_progress():
        for at, case in enumerate(cases):
            try:
                made.append(profile(case, device))
            except (SplitbenchError, CellError) as error:
                if len(cases) == 1:
                    raise SplitbenchError(str(error)) from error
                err().print(f"{case.model.name} cut at {case.cut}, {case.defense}: {error}", style="dim", markup=False)
            tell("profile", at + 1, len(cases), case.cut)
    if not made:
        raise SplitbenchError("none of these cases can be profiled")
    return made


def print_one(profile: Profile, form: str, layers: bool) -> None:
    from splitbench.edge.tables import layers as by_layer
    from splitbench.edge.tables import sheets, verdict
    from splitbench.edge.thop_count import difference, thop_macs
    from splitbench.edge.units import count

    own = sum(share.forward for share in profile.shares if share.party == "client" and share.component == "layers")
    theirs = thop_macs(profile.step.scene, profile.case.batch)
    if form == "json":
        print_json(profile.record() | {"thop_macs_forward": theirs, "verdict": verdict(profile)})
        return
    print_grids([*sheets(profile), *([by_layer(profile)] if layers else [])], form)
    if form == "csv":
        return
    beside = (
        f"thop counts {count(theirs)} MACs of the client's layers forward, we {count(own)}"
        if theirs is not None
        else ""
    )
    why = difference(own, theirs)
    for line in (verdict(profile), f"{beside}: {why}" if why else beside, profile.step.note):
        if line and form == "text":
            out().print(escape(line), soft_wrap=True, style="bold" if line.startswith(("fits", "does not")) else "dim")
        elif line and form == "markdown":
            typer.echo(f"\n{line}")


def print_several(profiles: Sequence[Profile], axes: Sequence[str], form: str) -> None:
    from splitbench.edge.tables import side_by_side

    if form == "json":
        print_json([profile.record() for profile in profiles])
    else:
        print_grids([side_by_side(profiles, axes)], form)


def print_recipe(path: Path, device: str, form: str) -> None:
    from splitbench.edge import device as devices
    from splitbench.edge.recipe import ProfileRecipe, sheet

    recipe = ProfileRecipe.load(path)
    board = devices.load(device or recipe.device)
    profiles = profiled(list(recipe.cases.values()), board)
    made = {name: p for name, case in recipe.cases.items() for p in profiles if p.case == case}
    if form == "json":
        print_json({name: profile.record() | {"paper": recipe.paper.get(name)} for name, profile in made.items()})
    else:
        print_grids([sheet(recipe, made)], form)


def print_choices(found: Sequence[Choice], budget: Any, form: str, shown: int = 40) -> int:
    """The feasible ones, best first; returns the exit code."""
    from splitbench.edge.budget import why_none
    from splitbench.edge.units import between, energy, size

    feasible = [choice for choice in found if choice.excess <= 1]
    if form == "json":
        records = [
            c.profile.record()
            | {
                "feasible": c.excess <= 1,
                "excess": c.excess,
                "tightest": c.tightest,
                "accuracy": c.accuracy,
                "leakage": c.leakage,
            }
            for c in found
        ]
        print_json(records if feasible else {"reason": why_none(found[0], budget), "choices": records})
        return 0 if feasible else 1
    if not feasible:
        err().print(escape(why_none(found[0], budget)), soft_wrap=True)
        return 1
    rows: list[tuple[str, ...]] = []
    for c in feasible[:shown] if form == "text" else feasible:
        case, p = c.profile.case, c.profile
        rows.append(
            (
                f"{case.cut} · batch {case.batch} · {case.defense}",
                "–" if c.accuracy is None else f"{c.accuracy:.3f}",
                "–" if c.leakage is None else f"{c.leakage:.3f}",
                between(p.seconds),
                size(p.memory.value),
                size(p.step.traffic.up),
                energy(p.joules.value),
                f"{c.tightest} ({100 * c.excess:.0f} %)",
            )
        )
    columns = ("choice", "accuracy", "leakage", "per step", "resident", "up", "energy", "tightest limit")
    best = feasible[0].profile
    title = f"{len(feasible)} of {len(found)} choices fit, best first · {best.case.model.name} on {best.device.title}"
    places = ", ".join(sorted({c.where for c in feasible if c.known}))
    known = (
        f"accuracy and the worst attack's leakage (SSIM of images) are the store's{f' of {places}' if places else ''}, "
        "the best by their difference first; what it does not know (–) comes after, by seconds per sample"
    )
    more = (
        [f"{len(feasible) - shown} more: --format csv or json lists them all"]
        if form == "text" and len(feasible) > shown
        else []
    )
    print_grids([(title, columns, tuple(rows), (known, *more))], form)
    return 0


def print_measured(pairs: Sequence[tuple[Profile, Measured, Measured]], axes: Sequence[str], form: str) -> None:
    from splitbench.edge.tables import predicted_and_measured

    if form == "json":
        from dataclasses import asdict

        print_json([p.record() | {"measured": asdict(m), "measured_frugal": asdict(f)} for p, m, f in pairs])
    else:
        print_grids([predicted_and_measured(pairs, axes)], form)
