"""Running cells: train, attack, score, store. Whatever becomes of a cell, it leaves a row."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from splitbench.core.attack import Attack
from splitbench.core.component import Part
from splitbench.core.data import as_input
from splitbench.core.defense import Turn
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.progress import Budget, watching
from splitbench.core.randomness import generator
from splitbench.plan import components
from splitbench.plan.cells import Cell
from splitbench.runner import runfolder
from splitbench.runner.adversary import mount, refusal
from splitbench.runner.cost import edge_macs
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.score import best_of, every_metric, leakage, utility
from splitbench.runner.train import Trained, train
from splitbench.store.outcome import Outcome, Score, Status
from splitbench.store.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Finished:
    """One cell's outcome, and whether it was in the store already."""

    cell: Cell
    outcome: Outcome
    reused: bool


def run(
    cells: Sequence[Cell], store: Store, metrics: Iterable[Part] = (), done: Callable[[Finished], None] = lambda _: None
) -> list[Finished]:
    """Every cell once, in order. Cells that another process is at are left to it and looked at again at the end,
    and with a training its attacks."""
    store.open_for_writing().sweep()
    scorers = tuple(metrics)
    finished: dict[str, Finished] = {}
    waiting = deque(cells)
    trainings = {cell.key for cell in cells if cell.attack is None}  # not yet done, by us or by others
    postponed = 0
    while waiting:
        cell = waiting.popleft()
        untrained = cell.attack is not None and not trainings.isdisjoint((cell.run.key, cell.twin.run.key))
        # Once everything left is in other hands, wait for the first of them.
        with store.claim(cell.key, wait=postponed > len(waiting) and not untrained) as mine:
            if not mine or untrained:
                waiting.append(cell)
                postponed += 1
                continue
            postponed = 0
            finished[cell.key] = perform(cell, store, scorers)
            trainings.discard(cell.key)
        done(finished[cell.key])
    return [finished[cell.key] for cell in cells]


def perform(cell: Cell, store: Store, metrics: Sequence[Part] = ()) -> Finished:
    """One cell: taken from the store if it is done, else run and stored."""
    stored = store.get(cell.key)
    if stored is not None and stored.status == "done" and _whole(cell, store):
        return Finished(cell, _with_metrics(stored, store, metrics), reused=True)
    begun = time.perf_counter()
    try:
        outcome = _train(cell, store, metrics) if cell.attack is None else _attack(cell, store, metrics)
    except (CellError, SplitbenchError) as error:
        outcome = _outcome(cell, "failed", str(error))
    except Exception as error:  # a component's bug: the row says so, the log has the traceback, the rest goes on
        log.exception("%s failed", cell)
        outcome = _outcome(cell, "failed", f"{type(error).__name__}: {error}")
    outcome = replace(outcome, costs={**outcome.costs, "seconds": time.perf_counter() - begun})
    store.put(outcome)
    return Finished(cell, outcome, reused=False)


def _whole(cell: Cell, store: Store) -> bool:
    """A row whose run folder was deleted by hand cannot be attacked or scored again: run it again."""
    return (store.run_folder(cell.run.key) / "weights.safetensors").is_file()


def _train(cell: Cell, store: Store, metrics: Sequence[Part]) -> Outcome:
    trained = train(prepare(cell.run))
    prepared = trained.prepared
    scores = utility(prepared, every_metric(metrics))
    runfolder.save(store, trained)
    wire, model = trained.wire, prepared.models[0]
    costs = {
        "bytes_up": float(wire.bytes(sender="client")),
        "bytes_down": float(wire.bytes(sender="server")),
        "client_parameters": float(model.parameters("client")),
        "server_parameters": float(model.parameters("server")),
        "edge_macs": float(edge_macs(prepared)),
        "loss": trained.losses[-1],
        **prepared.defense.spent(_turns(prepared)),
    }
    return _outcome(cell, "done", "", prepared, scores, costs)


def _turns(prepared: Prepared) -> list[Turn]:
    """The training's batches again, from its seed, as far as an accountant of privacy wants to know them."""
    spec, sizes = prepared.spec, [len(rows) for rows in prepared.clients]
    order = generator(spec.seed, "order")
    alike: Counter[tuple[int, int, int]] = Counter()
    for _ in range(spec.training.epochs):
        for step in prepared.topology.steps(sizes, spec.training.batch, order):
            alike.update((i, len(rows), int(rows.bincount().max())) for i, rows in step)
    return [Turn(i, min(1.0, size / sizes[i]), repeats, steps) for (i, size, repeats), steps in alike.items()]


def _attack(cell: Cell, store: Store, metrics: Sequence[Part]) -> Outcome:
    trained = _trained(cell, store)
    if isinstance(trained, str):
        return _outcome(cell, "skipped", trained)
    prepared = trained.prepared
    reason = refusal(cell, prepared)
    if reason is not None:
        return _outcome(cell, "skipped", reason, prepared)
    assert cell.attack is not None
    attack: Attack = components.build(cell.attack)
    asked = _trained(cell.twin, store) if attack.asks == "twin" else trained
    if isinstance(asked, str):
        return _outcome(cell, "skipped", f"the undefended twin cannot be asked: {asked}", prepared)
    looks: list[tuple[str, Tensor]] = []
    budget = Budget(cell.minutes / cell.restarts, attack.iterations) if cell.minutes is not None else None
    with watching(lambda when, guess: looks.append((when, guess[: runfolder.SHOWN].clone()))):
        tries = [mount(cell, trained, restart=i, asked=asked, budget=budget) for i in range(cell.restarts)]
    attacked = tries[0][1]
    guesses = best_of(prepared, [recovered for recovered, _ in tries], attack.readout)
    scores = leakage(prepared, guesses, every_metric(metrics), attack.readout)
    costs: dict[str, float] = {"iterations": float(attack.iterations * cell.restarts)}
    if budget is not None:
        costs["stopped_early"] = float(budget.spent)
    if attacked is not trained:
        same = _identical(attacked, trained)
        costs["replay_identical"] = float(same)
        if not same:
            # What an active attack did to the task, as the client would notice it.
            costs |= {f"{s.metric}_under_attack": s.value for s in utility(attacked.prepared, every_metric())}
    runfolder.save_recovered(store, cell.run.key, cell.key, guesses, as_input(prepared.evaluation.x), looks)
    return _outcome(cell, "done", "", prepared, scores, costs)


def _trained(cell: Cell, store: Store) -> Trained | str:
    """The run to attack, or why there is none."""
    row = store.get(cell.run.key)
    if row is not None and row.status != "done":
        return f"its training {row.status}: {row.reason}"
    if not store.run_folder(cell.run.key).is_dir():
        return "its training is not in the store"
    return runfolder.load(store, cell.run.key)


def _identical(left: Trained, right: Trained) -> bool:
    one, other = runfolder.state(left.prepared.models), runfolder.state(right.prepared.models)
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


def _with_metrics(stored: Outcome, store: Store, metrics: Sequence[Part]) -> Outcome:
    """A stored outcome, scored with any metric that it was not scored with before."""
    present = {(s.metric, s.version) for s in stored.scores}
    wanted = every_metric(metrics)
    missing = [(part, metric) for part, metric in wanted if (part.name, str(part.version)) not in present]
    about = "labels" if stored.kind == "train" else "inputs"
    if not any(metric.about == about for _, metric in missing):
        return stored
    trained = runfolder.load(store, stored.run)
    if stored.kind == "train":
        further = utility(trained.prepared, missing)
    else:
        guesses = runfolder.load_recovered(store, stored.run, stored.key)
        ranked = next((s.readout for s in stored.scores if s.readout), "clamp")
        further = leakage(trained.prepared, guesses, missing, ranked)
    replaced = {s.metric for s in further}
    kept = [s for s in stored.scores if s.metric not in replaced]
    outcome = replace(stored, scores=(*kept, *further))
    store.put(outcome)
    return outcome


def _outcome(
    cell: Cell,
    status: Status,
    reason: str,
    prepared: Prepared | None = None,
    scores: Sequence[Score] = (),
    costs: dict[str, float] | None = None,
) -> Outcome:
    spec = cell.run
    return Outcome(
        key=cell.key,
        run=spec.key,
        kind="attack" if cell.attack else "train",
        status=status,
        reason=reason,
        scale=spec.scale,
        dataset=spec.data.name,
        model=spec.model.name,
        cut=spec.cut,
        topology=spec.topology.name,
        clients=spec.clients,
        defense=components.defense_label(spec),
        attack=components.label(cell.attack) if cell.attack else "",
        seed=spec.seed,
        created=time.time(),
        cell=cell.document(),
        twin=cell.twin.key if cell.attack else "",
        bar=_bar(cell),
        provenance=runfolder.provenance(prepared) if prepared else {},
        scores=tuple(scores),
        costs=costs or {},
        samples=tuple(prepared.allocation.evaluation.tolist()) if prepared and cell.attack else (),
    )


def _bar(cell: Cell) -> float:
    if cell.attack is None:
        return 0.0
    bars = components.build(cell.attack).bars
    return float(bars.get(cell.run.data.name, bars.get("*", 0.0)))
