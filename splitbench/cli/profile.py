"""splitbench profile"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from splitbench.cli._options import given, with_options
from splitbench.cli._output import Json, StorePath, check_picture, out, print_json, showing_progress
from splitbench.cli._profile import (
    print_choices,
    print_grids,
    print_measured,
    print_one,
    print_recipe,
    print_several,
    profiled,
)
from splitbench.cli._settings import assign
from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.plan.cells import Options, Training

WORKS = ("training", "inference")
BATCHES = ("8", "32", "128")  # that a budget chooses from, if nothing else is said


@with_options({"Run": Options, "Training": Training}, only=("clients", "batch", "epochs", "optimizer", "frozen"))
def profile(
    context: typer.Context,
    device: Annotated[str, typer.Option(help="A device, `local`, or a .yaml of yours; `list` shows them.")] = "rpi4",
    dataset: Annotated[str, typer.Option(help="Gives the shape and number of samples.")] = "",
    shape: Annotated[str, typer.Option(help="Instead of a data set: 3x224x224, or the length of a text.")] = "",
    classes: Annotated[int | None, typer.Option(help="How many classes [default: the data set's, or 10].")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Samples of all clients [default: the data set's, or 1000].")
    ] = None,
    model: Annotated[str, typer.Option(help="A model, any timm name, or file.py:Class.")] = "resnet18",
    cut: Annotated[str, typer.Option(help="Where the network is cut [default: its first place].")] = "",
    topology: Annotated[str, typer.Option(help="Who talks to whom.")] = "vanilla",
    defense: Annotated[list[str] | None, typer.Option(help="May be given several times; in that order.")] = None,
    phase: Annotated[str, typer.Option(help="training or inference.")] = "training",
    compare: Annotated[
        list[str] | None, typer.Option(help="defense=none,seal, cut=all, model=resnet18@stem,vit_tiny@embed, ...")
    ] = None,
    budget: Annotated[str, typer.Option(help="memory=2GB,step=1s,uplink=10Mbit/s: what fits, best first.")] = "",
    measure: Annotated[
        bool, typer.Option("--measure", help="Run the client's step here, beside the prediction.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine and write its device file.")
    ] = False,
    recipe: Annotated[str, typer.Option(help="A recipe of profiles, such as seal/table4.")] = "",
    layers: Annotated[bool, typer.Option("--layers", help="Also what each module costs.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the roofline and the memory as .png or .svg.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the rows as .parquet.")] = None,
    format: Annotated[str, typer.Option("--format", help="text, markdown, latex, csv, html or json.")] = "text",
    store: StorePath = None,
    json: Json = False,
    **fields: Any,
) -> None:
    """What a client costs on a device: MACs, memory, traffic, time and energy, and whether it fits.

    The settings of the defense and the model chosen are options too: add [bold]--help[/] after [bold]--defense NAME[/].
    Nothing is trained, and nothing but --measure and --calibrate depends on this machine.
    """
    from splitbench.report.tables.render import FORMATS

    form = "json" if json else format
    mistakes = [
        Mistake(f"--{what}", f"no {what} '{given}'{nearest(given, known)}")
        for what, given, known in (("format", form, FORMATS), ("phase", phase, WORKS))
        if given not in known
    ]
    mistakes += check_picture(plot, "--plot") if plot is not None else []
    if save is not None and save.suffix != ".parquet":
        mistakes.append(Mistake("--save", f"rows are saved as .parquet, not as '{save.name}'"))
    if budget:
        from splitbench.edge.budget import parse

        mistakes += _tried(lambda: parse(budget), "--budget")
    if device != "list" and not calibrate and not recipe:
        from splitbench.edge.device import load

        mistakes += _tried(lambda: load(device), "--device")
    if mistakes:
        raise SplitbenchError(mistakes)
    if device == "list":
        _list_devices(form)
        return
    named = any(token.partition("=")[0] == "--device" for token in context.meta["args"])
    if calibrate:
        _calibrate(device if named else "local", form)
        return
    if recipe:
        from splitbench.plan import recipes

        print_recipe(recipes.find(recipe)[1], device if named else "", form)
        return
    from splitbench.edge import device as devices

    chosen = devices.load(device)
    names = defense or ["none"]
    parts = [("model", "models", model), ("topology", "topologies", topology)]
    parts += [("data", "data", dataset)] if dataset else []
    parts += [(f"defense{i}", "defenses", name) for i, name in enumerate(names)]
    given_settings = assign(context.meta["settings"], parts, context.meta["options"])  # type: ignore[arg-type]

    from splitbench.edge.compare import axes_of, cases, expand

    base = {
        "model": given_settings["model"],
        "cut": cut,
        "defenses": [given_settings[f"defense{i}"] for i in range(len(names))],
        "topology": given_settings["topology"],
        "dataset": given_settings.get("data"),
        "shape": shape,
        "classes": classes,
        "samples": samples,
        **given(fields, Options),
        "training": given(fields, Training),
        "work": phase,
    }
    axes = expand(axes_of(compare or []))
    if budget:
        _budget(budget, base, axes, chosen, store, form, given={"cut": bool(cut), "defense": bool(defense)})
        return
    if measure and chosen.name != devices.here():
        raise SplitbenchError(f"--measure runs on this machine, which is not {chosen.name}; say --device local")
    made = profiled(cases(base, axes), chosen)
    if plot is not None:
        from splitbench.edge.picture import draw

        documents = [p.case.document() for p in made]
        shown = list(axes) or ["cut", "defense"]
        draw(plot, made, ["\n".join(str(d["work" if a == "phase" else a]) for a in shown) for d in documents])
    if save is not None:
        from splitbench.edge.saved import save as write

        write(save, [p.record() for p in made])
    if measure:
        _measure(made, list(axes), form)
    elif len(made) > 1:
        print_several(made, ["work" if axis == "phase" else axis for axis in axes], form)
    else:
        print_one(made[0], form, layers)


def _tried(what: Callable[[], object], option: str) -> list[Mistake]:
    """The mistakes in what an option says; those of a file keep their own places."""
    try:
        what()
    except SplitbenchError as error:
        inside = option.removeprefix("--")
        return [
            replace(m, where=f"{option} {m.where.removeprefix(inside).lstrip('.')}".strip()) for m in error.mistakes
        ]
    return []


def _measure(made: list, axes: list[str], form: str) -> None:  # type: ignore[type-arg]
    from splitbench.core.progress import tell
    from splitbench.edge.case import plain
    from splitbench.edge.measure import measure

    pairs = []
    with showing_progress():
        for at, one in enumerate(made):
            document, threads = plain(one.case), one.device.threads
            pairs.append((one, measure(document, threads), measure(document, threads, frugal=True)))
            tell("measure", at + 1, len(made), one.case.cut)
    print_measured(pairs, axes, form)


def _budget(text: str, base: dict, axes: dict, device: object, store: str | None, form: str, given: dict) -> None:  # type: ignore[type-arg]
    from splitbench.core import registry
    from splitbench.edge.budget import choices, parse
    from splitbench.edge.compare import cases
    from splitbench.store.store import Store

    limits = parse(text)
    free = {} if given["cut"] else {"cut": ["all"]}
    free |= {} if given["defense"] else {"defense": registry.names("defenses")}
    candidates = cases(base, {**free, "batch": list(BATCHES), **axes})
    # What differs in its batches alone shares a network, which is made once if they come one after the other.
    candidates.sort(key=lambda case: (case.model.name, case.cut, case.defense))
    found = choices(profiled(candidates, limits.on(device)), limits, Store(store))  # type: ignore[arg-type]
    raise typer.Exit(print_choices(found, limits, form))


def _calibrate(device: str, form: str) -> None:
    from splitbench.edge.calibrate import calibrate

    with showing_progress():
        path = calibrate(device)
    if form == "json":
        print_json({"device": path.stem, "file": str(path)})
    else:
        out().print(f"wrote {path}; `splitbench profile --device {path.stem}` uses it", soft_wrap=True)


def _list_devices(form: str) -> None:
    from splitbench.edge import device as devices

    rows = []
    for name in devices.names():
        try:
            found = devices.load(name)
        except SplitbenchError as error:
            rows.append((name, str(error).splitlines()[0], "–", "–"))
            continue
        rate = found.peak.value * found.sustained.value / 1e9
        rows.append((name, found.title, f"{found.memory.value / 1e9:.3g} GB", f"{rate:.3g} GMAC/s"))
    if form == "json":
        print_json([dict(zip(("name", "title", "memory", "sustained"), row, strict=True)) for row in rows])
    else:
        print_grids([("Devices", ("name", "title", "memory", "sustained"), tuple(rows))], form)
