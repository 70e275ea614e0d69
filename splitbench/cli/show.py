"""splitbench show"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from splitbench.cli._function import show_function
from splitbench.cli._output import Json, StorePath, out, print_json
from splitbench.cli._settings import assign, need_values
from splitbench.core import registry
from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.registry import Kind

KINDS: dict[str, Kind] = {name.replace(" ", ""): kind for kind, name in registry.SINGULAR.items()} | {"data": "data"}
WORDS = ("run", "recipe", "function", *KINDS)


def show(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(WORDS)}; or just the name of one thing.")],
    name: Annotated[str | None, typer.Argument(help="Which one.")] = None,
    cut: Annotated[str, typer.Option(help="For a model: where to cut it.")] = "",
    classes: Annotated[int, typer.Option(help="For a model: how many classes.")] = 10,
    shape: Annotated[
        str, typer.Option(help="For a model: the shape of an input, such as 3x32x32 (or the length of a text).")
    ] = "",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Everything about one run, recipe, component, model, or periodic function for SEAL.

    A function is `cos` or another of the catalogue (listed if none is named), 'cos(x)+0.9cos(2x)', or `secret`. It
    takes --size 14,16,32, --over rows|columns, --key of a secret one, --picture FILE.png, and --run ID for the feature
    maps of a stored run.
    """
    if what == "function":
        show_function(name, need_values(context.meta["settings"]), context.meta["args"], store, json)
        return
    if name is None:
        what, name = _guess(what, store)
    if what not in WORDS:
        raise SplitbenchError(f"cannot show a '{what}'{nearest(what, WORDS)}")
    settings = context.meta["settings"]
    if what == "run":
        assign(settings, [], context.meta["options"])
        document = _run(name, store)
    elif what == "recipe":
        assign(settings, [], context.meta["options"])
        document = _recipe(name)
    else:
        kind = KINDS[what]
        given = assign(settings, [("it", kind, name)], context.meta["options"])["it"][name]
        document = _component(kind, name, given)
        if kind == "models":
            document |= _model(name, given, cut, classes, shape)
    if json:
        print_json(document)
    else:
        _print(document)


def _guess(given: str, store: str | None) -> tuple[str, str]:
    """What a bare name can only mean: a component, a recipe, or a run."""
    for word, kind in KINDS.items():
        if given in registry.names(kind):
            return word, given
    from splitbench.plan import recipes
    from splitbench.store.store import Store

    if given in recipes.names() or Path(given).suffix == ".yaml":
        return "recipe", given
    runs = Store(store).runs()
    if given == "latest" or any(run.startswith(given) for run in runs):
        return "run", given
    everything = [n for kind in registry.KINDS for n in registry.names(kind)] + recipes.names() + runs
    raise SplitbenchError(f"nothing called '{given}'{nearest(given, everything)}")


def _component(kind: Kind, name: str, given: dict[str, Any]) -> dict[str, Any]:
    from splitbench.cli.ls import needs_of
    from splitbench.plan import components

    part, mistakes = components.resolve(kind, {name: given}, registry.SINGULAR[kind])
    if part is None:
        raise SplitbenchError(mistakes)
    about, settings = registry.describe(kind, name)
    found = registry.locate(kind, name)
    document: dict[str, Any] = {"name": name, "kind": registry.SINGULAR[kind], "version": part.version, "about": about}
    if kind == "attacks" and not mistakes:
        document["needs"] = needs_of(name)
    notes = {s.name: f"{s.annotation}: {s.note}" if s.note else s.annotation for s in settings}
    document["settings"] = {k: {"value": v, "about": notes.get(k, "")} for k, v in part.settings.items()}
    document["source"] = found[0].name if found else "adopted"
    return document


def _model(name: str, given: dict[str, Any], cut: str, classes: int, shape: str) -> dict[str, Any]:
    import torch

    from splitbench.core.split import output_shape
    from splitbench.plan import components

    part, _ = components.resolve("models", {name: given}, "model")
    assert part is not None
    architecture = components.build(part)
    text, tabular = architecture.modality == "text", architecture.modality == "tabular"
    try:
        size = (
            tuple(int(side) for side in shape.split("x"))
            if shape
            else ((128,) if text else (39,) if tabular else (3, 32, 32))
        )
    except ValueError as error:
        raise SplitbenchError(f"--shape takes whole numbers such as 3x32x32, got '{shape}'") from error
    network = architecture.build(size, classes)
    document: dict[str, Any] = {
        "input": size,
        "classes": classes,
        "cuts": dict(architecture.cuts.items()),
        "parameters": {"whole": sum(p.numel() for p in network.parameters())},
    }
    if cut:
        split = architecture.split(network, (cut,))
        document["parameters"] |= {"client": split.parameters("client"), "server": split.parameters("server")}
        document["cut"] = cut
        document["smashed"] = output_shape(split.stages[0], size, torch.int64 if text else torch.float32)
    return document


def _run(given: str, store: str | None) -> dict[str, Any]:
    import json

    import yaml

    from splitbench.store.store import Store

    place = Store(store)
    key = place.find_run(given)
    folder = place.run_folder(key)
    outcomes = [o for o in place.outcomes()[0] if o.run == key]
    return {
        "run": key,
        "folder": str(folder),
        "files": {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()},
        "recipe": yaml.safe_load((folder / "recipe.yaml").read_text()),
        "provenance": json.loads((folder / "provenance.json").read_text()),
        "outcomes": [
            {
                "what": o.attack or "train",
                "status": o.status,
                "reason": o.reason,
                "key": o.key,
                "scores": {f"{s.metric}@{s.version} {s.readout}".strip(): s.value for s in o.scores},
                "costs": dict(o.costs),
            }
            for o in outcomes
        ],
    }


def _recipe(given: str) -> dict[str, Any]:
    from splitbench.plan import recipes
    from splitbench.plan.document import Document

    name, path = recipes.find(given)
    data = Document.load(path).data
    return {"recipe": name, **(data if isinstance(data, dict) else {"text": data})}


def _print(document: dict[str, Any]) -> None:
    console = out()
    grid = Table.grid(padding=(0, 2))
    _fill(grid, document, "")
    console.print(grid)


def _fill(grid: Table, value: Any, indent: str) -> None:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list) and inner and not _flat(inner):
            grid.add_row(f"{indent}[bold]{escape(str(key))}[/]", "")
            _fill(grid, inner, indent + "  ")
        else:
            grid.add_row(f"{indent}[bold]{escape(str(key))}[/]", escape(_text(inner)))


def _flat(value: dict[str, Any] | list[Any]) -> bool:
    return isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "–"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
