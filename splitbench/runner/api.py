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
from splitbench.core.device import using
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.core.goal import GOALS
from splitbench.plan import components, recipes
from splitbench.plan.cells import Cell, RunSpec
from splitbench.plan.document import Document
from splitbench.plan.feasible import load_data
from splitbench.plan.recipe import Recipe, grant
from splitbench.plan.schema import BLOCKS, check_block
from splitbench.runner import runfolder
from splitbench.runner.execute import Finished, perform
from splitbench.runner.execute import run as run_cells
from splitbench.runner.verdict import Verdict
from splitbench.store.outcome import Outcome, Score
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
    defense: Spec | Sequence[Spec] = "none",
    *,
    store: Path | str | None = None,
    seed: int = 0,
    device: str = "",
    **recipe: Any,
) -> Outcome:
    """Train a split network under a defense and store it as a run.

    `recipe` holds any key of a recipe: `data`, `model`, `cut`, `topology`, `clients`, `training`, `samples`, `bar`, ...
    Returns the outcome, whose `run` is the run's id.
    """
    several = [defense] if isinstance(defense, str | Mapping) else list(defense)
    document = {**recipe, "defenses": [several], "seeds": [seed], "attacks": []}
    place = Store(store)
    with using(device):
        cell = planned(document, recipe.get("scale", "desk")).cells[-1]
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
    device: str = "",
    **threat: Any,
) -> Outcome:
    """Attack a stored run and score what was recovered. `threat` overrides fields of the threat model.

    The undefended twin of the run is trained and attacked too, once, so that the attack is known to work.
    `budget` limits the attack: 500 are iterations, "2m" are minutes. `restarts` tries it from several draws and
    counts the best guess of each sample. `double` gives it twice its iterations. `early` is shown the outcome before
    the twin's turn comes, if that has still to be trained or attacked.
    """
    place = Store(store)
    with using(device):
        cell = efforts(attack_cell(name, run, place, threat), budget, restarts, 2 if double else 1)
        assert cell.attack is not None
        assert cell.threat is not None
        # What cannot be mounted needs nothing to be read beside.
        built: Attack = components.build(cell.attack)
        reference = reference_cells(cell) if built.lacks(cell.threat) is None else []
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


def reference_cells(cell: Cell) -> list[Cell]:
    """What an attacked number is to be read beside: the attack where nothing defends, and a guess that looks at
    nothing."""
    return [*([Cell(cell.run).twin, cell.twin] if cell.run.defenses else []), *_floor(cell)]


def _floor(cell: Cell) -> list[Cell]:
    """The floor of the attack's goal, if it can be mounted on these data by this adversary."""
    assert cell.attack is not None
    assert cell.threat is not None
    goal = GOALS[components.build(cell.attack).goal]
    name = goal.floor(load_data(cell.run.data).modality)
    part, _ = components.resolve("attacks", name, "attack") if name else (None, [])
    if part is None or components.build(part).lacks(cell.threat) is not None:
        return []
    return [Cell(cell.run, part, cell.threat)]


def verdict(outcome: Outcome, *, store: Path | str | None = None) -> Verdict:
    """An attacked number beside the undefended one and a blind guess, in the metric that ranks attacks of its goal."""
    place, metric, bars = Store(store), outcome.ranking, dict(outcome.bars)

    def score(row: Outcome | None, metric: str = metric) -> Score | None:
        return row.score(metric) if row is not None and row.status == "done" else None

    def value(row: Outcome | None) -> float | None:
        return found.value if (found := score(row)) is not None else None

    twin, own = place.get(outcome.twin), score(outcome)
    floors = [value(place.get(cell.key)) for cell in _floor(Cell.from_document(dict(outcome.cell)))]
    floor = floors[0] if floors else None
    reached = [(score(twin, name), bar) for name, bar in bars.items() if name != metric]
    return Verdict(
        value(outcome),
        value(twin),
        floor if floor is not None or outcome.aim is None else outcome.aim.blind or None,
        bars.get(metric, 0.0),
        metric,
        own.leaks_when if own is not None else "high",
        all(there is not None and there.sign * there.value >= there.sign * bar for there, bar in reached),
    )


def attack_cell(name: Spec, run: str, store: Store, threat: Mapping[str, Any]) -> Cell:
    """An attack on a stored run. Every mistake at once: in its name, in the threat model, and in the run."""
    part, mistakes = components.resolve("attacks", name, "attack")
    mistakes = [*mistakes, *check_block(BLOCKS["threat"], threat, "threat")]
    spec = None
    try:
        spec = runfolder.read_spec(store.run_folder(store.find_run(run)))
    except SplitbenchError as error:
        mistakes += [replace(mistake, where=mistake.where or "run") for mistake in error.mistakes]
    if part is None or spec is None or mistakes:
        raise SplitbenchError(mistakes)
    return Cell(spec, part, grant(threat, spec))


def evaluate(
    *, run: str = "latest", store: Path | str | None = None, done: Watch = _nothing, device: str = ""
) -> list[Outcome]:
    """Utility, every privacy metric of every attack on the run, and the blind guesses of every goal attacked."""
    place = Store(store)
    key = place.find_run(run)
    spec = runfolder.read_spec(place.run_folder(key))
    mounted = [o for o in place.outcomes()[0] if o.run == key and o.kind == "attack" and o.role != "floor"]
    with using(device):
        cells = [Cell(spec), *_blind(spec, mounted)]
        finished = run_cells(cells, place, done=done)
        further = [perform(Cell.from_document(dict(outcome.cell)), place) for outcome in mounted]
    return [f.outcome for f in [*finished, *further]]


def _blind(spec: RunSpec, mounted: Sequence[Outcome]) -> list[Cell]:
    """Every floor of each goal that was attacked, for each party that attacked; of the inputs, if nothing was."""
    attacked = dict.fromkeys((o.goal, o.party) for o in mounted) or {("inputs", "server"): None}
    names = [name for name in registry.names("attacks") if registry.declared("attacks", name, "role") == "floor"]
    cells, modality = [], load_data(spec.data).modality
    for goal, party in attacked:
        threat = grant({"party": party}, spec)
        for name in names:
            part, _ = components.resolve("attacks", name, "attack")
            if part is None:
                continue
            floor: Attack = components.build(part)
            if floor.goal == goal and floor.works_on(modality):
                cells.append(Cell(spec, part, threat))
    return cells


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
    recipe: str | Path | Plan,
    *,
    scale: str = "desk",
    store: Path | str | None = None,
    done: Watch = _nothing,
    device: str = "",
) -> list[Outcome]:
    """All cells of a recipe, or of one that was checked: train, attack, score. What the store has is not done again."""
    found = (recipe if isinstance(recipe, Plan) else check(recipe, scale=scale, store=store)).recipe
    with using(device):
        place = Store(store).open_for_writing()
        place.put_plan(found.name, found.scale, found.plan())
        finished = run_cells(found.cells, place, found.metrics, done)
    return [f.outcome for f in finished]


def picture(outcome: Outcome, store: Path | str | None = None) -> Path:
    """Where the originals and reconstructions of an attack were drawn."""
    return Store(store).run_folder(outcome.run) / "attacks" / f"{outcome.key}.png"
