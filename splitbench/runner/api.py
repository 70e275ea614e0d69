"""Everything a command does, as one Python call: for notebooks, and for the command line itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from splitbench.core import registry
from splitbench.core.attack import Attack
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.plan import components, recipes
from splitbench.plan.cells import Cell
from splitbench.plan.document import Document
from splitbench.plan.recipe import Recipe, grant
from splitbench.plan.schema import BLOCKS, check_block
from splitbench.runner import runfolder
from splitbench.runner.execute import Finished, perform
from splitbench.runner.execute import run as run_cells
from splitbench.runner.verdict import Certificate
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

Spec = str | Mapping[str, Any]  # "gaussian", or {"gaussian": {"sigma": 0.1}}
Watch = Callable[[Finished], None]


def _nothing(_: Finished) -> None:
    return None


@dataclass(frozen=True)
class Plan:
    """What a recipe would do: its cells, and which of them the store has."""

    recipe: Recipe
    done: int
    skipped: Mapping[str, str]  # cells that will be skipped, and why

    @property
    def to_run(self) -> int:
        return len(self.recipe.cells) - self.done - len(self.skipped)


def train(
    defense: Spec | Sequence[Spec] = "none", *, store: Path | str | None = None, seed: int = 0, **recipe: Any
) -> Outcome:
    """Train a split network under a defense and store it as a run.

    `recipe` holds any key of a recipe: `data`, `model`, `cut`, `topology`, `clients`, `training`, `samples`, ...
    Returns the outcome, whose `run` is the run's id.
    """
    several = [defense] if isinstance(defense, str | Mapping) else list(defense)
    document = {**recipe, "defenses": [several], "seeds": [seed], "attacks": []}
    cell = planned(document, recipe.get("scale", "desk")).cells[0]
    place = Store(store)
    [finished] = run_cells([cell], place)
    if finished.outcome.status == "done":
        place.mark_latest(cell.key)
    return finished.outcome


def attack(
    name: Spec,
    *,
    run: str = "latest",
    store: Path | str | None = None,
    budget: int | str | None = None,
    restarts: int = 1,
    double: bool = False,
    early: Callable[[Outcome], None] = lambda _: None,
    **threat: Any,
) -> Outcome:
    """Attack a stored run and score what was recovered. `threat` overrides fields of the threat model.

    The undefended twin of the run is trained and attacked too, once, so that the attack is known to work.
    `budget` limits the attack: 500 are iterations, "2m" are minutes. `restarts` tries it from several draws and
    counts the best guess of each image. `double` gives it twice its iterations. `early` is shown the outcome before
    the twin's turn comes, if that has still to be trained or attacked.
    """
    place = Store(store)
    cell = attack_cell(name, place.find_run(run), place, threat)
    cell = efforts(cell, budget, restarts, 2 if double else 1)
    assert cell.attack is not None
    assert cell.threat is not None
    # What cannot be mounted needs nothing to be read beside.
    built: Attack = components.build(cell.attack)
    reference = certificate_cells(cell) if built.lacks(cell.threat) is None else []
    if built.asks == "twin":
        return run_cells([*reference, cell], place)[-1].outcome
    outcome = run_cells([cell], place)[0].outcome
    if outcome.status == "done":
        if cell.run.defenses and place.get(cell.twin.key) is None:
            early(outcome)
        run_cells(reference, place)
    return outcome


def efforts(cell: Cell, budget: int | str | None, restarts: int, times: int = 1) -> Cell:
    """The same attack with other effort. Iterations are settings, so that what they give can be had again."""
    assert cell.attack is not None
    built: Attack = components.build(cell.attack)
    minutes, factor = None, float(times)
    if restarts < 1:
        raise SplitbenchError([Mistake("restarts", f"expected at least 1, got {restarts}")])
    if budget is not None:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(m|min|minutes?)?\s*", str(budget))
        if found is None or float(found[1]) <= 0:
            raise SplitbenchError(
                [Mistake("budget", f"expected iterations such as 500 or minutes such as 2m, got {budget!r}")]
            )
        if found[2]:
            minutes = float(found[1])
        else:
            factor *= float(found[1]) / max(built.iterations, 1)
    if (budget is not None or times > 1) and not built.iterations:
        raise SplitbenchError(f"{cell.attack.name} takes no iterations that could be limited or doubled")
    settings = dict(cell.attack.settings)
    for phase in built.phases:
        if settings[phase]:
            settings[phase] = max(1, round(settings[phase] * factor))
    return replace(cell, attack=replace(cell.attack, settings=settings), restarts=restarts, minutes=minutes)


def certificate_cells(cell: Cell) -> list[Cell]:
    """What an attacked number is to be read beside: the mean image, and the attack where nothing defends."""
    assert cell.threat is not None
    part, _ = components.resolve("attacks", "mean_image", "attack")
    floor = [Cell(cell.run, part, cell.threat)] if part and cell.threat.auxiliary else []
    return [*([Cell(cell.run).twin, cell.twin] if cell.run.defenses else []), *floor]


def certificate(outcome: Outcome, *, store: Path | str | None = None, metric: str = "ssim") -> Certificate:
    place = Store(store)
    cell = Cell.from_document(dict(outcome.cell))
    floors = [c for c in certificate_cells(cell) if c.attack is not None and c.attack.name == "mean_image"]

    def value(row: Outcome | None) -> float | None:
        score = row.score(metric) if row is not None and row.status == "done" else None
        return score.value if score is not None else None

    floor = value(place.get(floors[0].key)) if floors else None
    return Certificate(value(outcome), value(place.get(outcome.twin)), floor, outcome.bar)


def attack_cell(name: Spec, run: str, store: Store, threat: Mapping[str, Any]) -> Cell:
    spec = runfolder.read_spec(store.run_folder(run))
    part, mistakes = components.resolve("attacks", name, "attack")
    mistakes = [*mistakes, *check_block(BLOCKS["threat"], threat, "threat")]
    if part is None or mistakes:
        raise SplitbenchError(mistakes)
    return Cell(spec, part, grant(threat, spec))


def evaluate(*, run: str = "latest", store: Path | str | None = None, done: Watch = _nothing) -> list[Outcome]:
    """Utility, every privacy metric of every attack on the run, and the attackers that look at nothing."""
    place = Store(store)
    key = place.find_run(run)
    spec = runfolder.read_spec(place.run_folder(key))
    floors = [name for name in registry.names("attacks") if registry.declared("attacks", name, "role") == "floor"]
    mounted = [o for o in place.outcomes()[0] if o.run == key and o.kind == "attack" and o.role != "floor"]
    cells = [Cell(spec), *(attack_cell(name, key, place, {}) for name in floors)]
    finished = run_cells(cells, place, done=done)
    further = [perform(Cell.from_document(dict(outcome.cell)), place) for outcome in mounted]
    return [f.outcome for f in [*finished, *further]]


def planned(document: Mapping[str, Any], scale: str, source: str = "") -> Recipe:
    """A recipe given as plain data, checked as a file would be."""
    text = json.dumps({k: v for k, v in document.items() if k != "scale"})
    checked = Document(text, source)
    checked.lines.clear()  # there are no lines to point at
    return Recipe.from_document(checked, scale, "")


def check(recipe: str | Path, *, scale: str = "desk", store: Path | str | None = None) -> Plan:
    """Everything `run` does before the first training, and nothing more. Raises with every mistake."""
    name, path = recipes.find(str(recipe))
    if recipes.counts_only(path):
        raise SplitbenchError(
            f"{name} is a recipe of profiles, with nothing to run; `splitbench table {name}` prints it"
        )
    found = Recipe.load(path, scale, name)
    place = Store(store)
    done = sum(1 for cell in found.cells if (o := place.get(cell.key)) is not None and o.status == "done")
    skipped = {
        str(cell): reason
        for cell in found.cells
        if cell.attack is not None
        and cell.threat is not None
        and (reason := components.build(cell.attack).lacks(cell.threat)) is not None
    }
    return Plan(found, done, skipped)


def run(
    recipe: str | Path | Plan, *, scale: str = "desk", store: Path | str | None = None, done: Watch = _nothing
) -> list[Outcome]:
    """All cells of a recipe, or of one that was checked: train, attack, score. What the store has is not done again."""
    found = (recipe if isinstance(recipe, Plan) else check(recipe, scale=scale, store=store)).recipe
    place = Store(store).open_for_writing()
    place.put_plan(found.name, found.scale, found.plan())
    finished = run_cells(found.cells, place, found.metrics, done)
    return [f.outcome for f in finished]


def picture(outcome: Outcome, store: Path | str | None = None) -> Path:
    """Where the originals and reconstructions of an attack were drawn."""
    return Store(store).run_folder(outcome.run) / "attacks" / f"{outcome.key}.png"
