"""Tables as files: each recipe that was run as Markdown and LaTeX, the scorecard of each paper, and a page of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from splitbench.core.errors import SplitbenchError
from splitbench.plan import recipes
from splitbench.plan.paper import load
from splitbench.report.claims.judge import claims
from splitbench.report.claims.scorecard import scorecard, summary
from splitbench.report.tables import render
from splitbench.report.tables.curve import curve_of_paper
from splitbench.report.tables.paper_table import layout_of, paper_table
from splitbench.report.tables.sheet import HasSheet
from splitbench.report.tables.table import table
from splitbench.store.store import Store

INTRODUCTION = """# Results

A store of rows (`outcomes/`, Parquet) without the trained networks, and what they say. Every page here but those listed
last is printed from the rows by

```sh
splitbench table --all --store results --write results
```

and the rows are made anew, training included, by `splitbench run` and the name of the table, given the data sets that
it names.
"""


def shown(recipe: str, store: Path | str | None, scale: str) -> Sequence[HasSheet]:
    """The table of a recipe: in its paper's layout if it has one."""
    layout = layout_of(recipe, store, scale)
    if layout is None:
        return table(recipe, store=store, scale=scale)
    made = paper_table(layout, store=store, scale=scale)
    return [curve_of_paper(made) if layout.layout == "curve" else made]


def markdown_of(store: Path, recipe: str, scale: str) -> str:
    return "\n".join(map(render.markdown, shown(recipe, store, scale)))


def pages(store: Path | str | None) -> dict[str, str]:
    """Every page, by its path. The same rows make the same bytes."""
    place = Store(store)
    plans = place.plans()
    if not plans:
        raise SplitbenchError(f"no recipe was run in {place.path}; `splitbench run` makes results")
    made: dict[str, str] = {}
    lines: list[str] = []
    for recipe, scale in plans:
        name = recipe if scale == "desk" else f"{recipe}@{scale}"
        sheets = shown(recipe, store, scale)
        made[f"{name}.md"] = "\n".join(map(render.markdown, sheets))
        made[f"{name}.tex"] = "\n".join(map(render.latex, sheets))
        plan = place.plan(recipe, scale) or {"cells": [], "title": ""}
        done = sum(1 for key in plan["cells"] if place.outcome_file(key).is_file())
        lines.append(f"- [{name}]({name}.md): {plan['title']}. {done} of {len(plan['cells'])} cells, scale {scale}.")
    for paper, scale in _papers(plans):
        scored, notes = claims(paper, store=store, scale=scale)
        name = f"{paper}/claims" if scale == "desk" else f"{paper}/claims@{scale}"
        made[f"{name}.md"] = render.markdown(scorecard(scored, notes))
        lines.append(f"- [{name}]({name}.md): what the paper's text claims: {summary(scored)}, scale {scale}.")
    others = [f"- [{name.removesuffix('.md')}]({name}): {first}" for name, first in _others(place.path, made)]
    further = ["", "Written by other commands, which each page names:", "", *others] if others else []
    made["README.md"] = "\n".join([INTRODUCTION, *lines, *further]) + "\n"
    return made


def _papers(plans: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The papers, by folder, of whose recipes with claims some was run."""
    names = set(recipes.names())
    found = [(recipe.rpartition("/")[0], scale) for recipe, scale in plans if recipe in names and load(recipe).claims]
    return list(dict.fromkeys((paper, scale) for paper, scale in found if paper))


def _others(folder: Path, made: dict[str, str]) -> list[tuple[str, str]]:
    found = []
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).as_posix()
        if name not in made and name != "README.md":
            first = next((line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()), "")
            found.append((name, first.strip("#* ")))
    return found
