"""splitbench ls"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from splitbench.cli._output import Json, StorePath, out, print_json
from splitbench.core import registry
from splitbench.core.errors import SplitbenchError, nearest

THINGS = (*registry.KINDS, "recipes", "runs")


def ls(
    what: Annotated[str, typer.Argument(help=f"One of {', '.join(THINGS)}.")] = "attacks",
    store: StorePath = None,
    json: Json = False,
) -> None:
    """List components, recipes or runs, each with the first line of its description."""
    if what not in THINGS:
        raise SplitbenchError(f"nothing called '{what}' to list{nearest(what, THINGS)}")
    rows = _runs(store) if what == "runs" else _recipes() if what == "recipes" else _components(what)
    if json:
        print_json(rows)
        return
    if not rows:
        out().print(f"no {what} yet")
        return
    grid = Table(box=None, pad_edge=False)
    for heading in rows[0]:
        grid.add_column(heading, style="bold" if heading == "name" else "")
    for row in rows:
        grid.add_row(*map(str, row.values()))
    out().print(grid)


def _components(kind: Any) -> list[dict[str, str]]:
    rows = []
    for name in registry.names(kind):
        about, _ = registry.describe(kind, name)
        row = {"name": name, "about": about.splitlines()[0] if about else ""}
        if kind == "attacks":
            row["needs"] = needs_of(name)
        rows.append(row)
    return rows


def needs_of(name: str) -> str:
    """What an attack must be granted, as words."""
    from dataclasses import fields

    from splitbench.core.threat import ANY, ThreatModel

    component: Any = registry.load("attacks", name)
    missing = ThreatModel()
    asked = [
        f"party {need}" if f.name == "party" else f.name
        for f in fields(ThreatModel)
        if (need := getattr(component.needs, f.name)) not in (getattr(missing, f.name), ANY)
    ]
    alternatives = component().lacks(component.needs)
    either = [alternatives.removeprefix("needs ").partition(" but ")[0]] if alternatives else []
    return ", ".join(asked + either) or "nothing"


def _recipes() -> list[dict[str, str]]:
    from splitbench.plan import recipes
    from splitbench.plan.document import Document

    rows = []
    for name in recipes.names():
        data = Document.load(recipes.find(name)[1]).data
        rows.append({"name": name, "about": data.get("title", "") if isinstance(data, dict) else ""})
    return rows


def _runs(store: str | None) -> list[dict[str, str]]:
    from splitbench.store.store import Store

    outcomes, _ = Store(store).outcomes()
    attacked: dict[str, int] = {}
    for outcome in outcomes:
        attacked[outcome.run] = attacked.get(outcome.run, 0) + (outcome.kind == "attack")
    rows = []
    for o in outcomes:
        if o.kind == "train":
            accuracy = o.score("accuracy")
            rows.append({"name": o.run, "status": o.status, "data": o.dataset, "model": f"{o.model}@{o.cut}",
                         "topology": o.topology, "defense": o.defense, "seed": str(o.seed), "scale": o.scale,
                         "accuracy": f"{accuracy.value:.3f}" if accuracy else "–",
                         "attacks": str(attacked[o.run])})  # fmt: skip
    return rows
