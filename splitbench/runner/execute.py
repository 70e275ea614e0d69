"""Running cells: train, attack, score, store. Whatever becomes of a cell, it leaves a row."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from splitbench.core import device
from splitbench.core.attack import ActiveAttack, Attack
from splitbench.core.component import Part
from splitbench.core.defense import Turn
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.message import About
from splitbench.core.metric import Truth
from splitbench.core.party import client
from splitbench.core.progress import Budget, watching
from splitbench.core.randomness import Streams
from splitbench.plan import components
from splitbench.plan.cells import Cell
from splitbench.plan.feasible import load_data
from splitbench.runner import runfolder
from splitbench.runner.adversary import RefusedError, mount, refusal
from splitbench.runner.cost import edge_macs
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.pretrain import keeping_pretrained
from splitbench.runner.score import (
    best_of,
    chance,
    every_metric,
    leakage,
    members_of,
    ranking,
    truth_like,
    truth_of,
    utility,
)
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
    if stored is not None and stored.status == "done" and _holds(stored, store):
        scored = _with_metrics(cell, stored, store, metrics)
        if scored is not None:
            return Finished(cell, scored, reused=True)
    begun, worked = time.perf_counter(), time.process_time()
    try:
        with keeping_pretrained(store):
            outcome = _train(cell, store, metrics) if cell.attack is None else _attack(cell, store, metrics)
    except (CellError, SplitbenchError) as error:
        outcome = _outcome(cell, "failed", str(error), store)
    except Exception as error:  # a component's bug: the row says so, the log has the traceback, the rest goes on
        log.exception("%s failed", cell)
        outcome = _outcome(cell, "failed", f"{type(error).__name__}: {error}", store)
    taken = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - worked}
    outcome = replace(outcome, costs={**outcome.costs, **taken})
    store.put(outcome)
    return Finished(cell, outcome, reused=False)


def _holds(stored: Outcome, store: Store) -> bool:
    """Whether a row is still about what the store has: a training about the weights in its folder, which may have been
    deleted or damaged, an attack about the weights of which the training's row speaks."""
    if stored.kind == "train":
        return stored.weights == runfolder.weights_digest(store.run_folder(stored.run))
    trained = store.get(stored.run)
    return trained is None or trained.status != "done" or stored.weights == trained.weights


def _train(cell: Cell, store: Store, metrics: Sequence[Part]) -> Outcome:
    trained = train(prepare(cell.run))
    prepared = trained.prepared
    scores = utility(prepared, every_metric(metrics))
    runfolder.save(store, trained)
    wire, model = trained.wire, prepared.models[0]
    costs = {
        "bytes_up": float(wire.up),
        "bytes_down": float(wire.down),
        "client_parameters": float(model.parameters("client")),
        "server_parameters": float(model.parameters("server")),
        "edge_macs": float(edge_macs(prepared)),
        "loss": trained.losses[-1],
        "chance": chance(prepared),
        **spent(prepared),
    }
    return _outcome(cell, "done", "", store, prepared, scores, costs)


def spent(prepared: Prepared) -> dict[str, float]:
    """What the defense says the training has cost in privacy, for the clients that it protects."""
    spec = prepared.spec
    protected = spec.clients if spec.protected is None else spec.protected
    turns = [turn for turn in _turns(prepared) if turn.client < protected]
    return prepared.members[client(0)].defense.spent(turns) if turns else {}


def _turns(prepared: Prepared) -> list[Turn]:
    """The training's batches again, from its seed, as far as an accountant of privacy wants to know them."""
    plan, alike = prepared.plan, Counter[tuple[int, int, int]]()
    for party in plan.clients:
        order, size = Streams(prepared.spec.seed, party).of("order"), plan.sizes[party.index]
        for _ in range(plan.epochs):
            batches = prepared.topology.rows(size, plan, order)
            alike.update((party.index, len(rows), int(rows.bincount().max())) for rows in batches)
    return [Turn(i, min(1.0, n / plan.sizes[i]), repeats, steps) for (i, n, repeats), steps in alike.items()]


def _attack(cell: Cell, store: Store, metrics: Sequence[Part]) -> Outcome:
    trained = _trained(cell, store)
    if isinstance(trained, str):
        return _outcome(cell, "skipped", trained, store)
    prepared = trained.prepared
    reason = refusal(cell, prepared)
    if reason is not None:
        return _outcome(cell, "skipped", reason, store, prepared)
    assert cell.attack is not None
    assert cell.threat is not None
    attack: Attack = components.build(cell.attack)
    asked = _trained(cell.twin, store) if attack.asks == "twin" else trained
    if isinstance(asked, str):
        return _outcome(cell, "skipped", f"the undefended twin cannot be asked: {asked}", store, prepared)
    looks: list[tuple[str, Tensor]] = []
    budget = Budget(cell.minutes / cell.restarts, attack.iterations) if cell.minutes is not None else None
    with watching(lambda when, guess: looks.append((when, guess[: runfolder.SHOWN].detach().cpu().clone()))):
        try:
            tries = [mount(cell, trained, restart=i, asked=asked, budget=budget) for i in range(cell.restarts)]
        except RefusedError as refused:
            return _outcome(cell, "skipped", str(refused), store, prepared)
    goal, about, attacked = attack.goal, tries[0].about, tries[0].trained
    truth, rows = truth_of(prepared, attack, about)
    guesses = [getattr(one.recovered, goal) for one in tries]
    guess = best_of(goal, guesses, about, truth, rows, ranking(prepared, goal), attack.readout)
    scores = leakage(goal, guess, about, truth, rows, every_metric(metrics), attack.readout)
    costs: dict[str, float] = {"iterations": float(attack.iterations * cell.restarts)}
    if budget is not None:
        costs["stopped_early"] = float(budget.spent)
    if attacked is not trained:
        costs["replay_identical"] = float(_identical(attacked, trained))
        if isinstance(attack, ActiveAttack) and cell.threat.tampers:
            # What an active attack did to the task, as the client would notice it.
            costs |= {f"{s.metric}_under_attack": s.value for s in utility(attacked.prepared, every_metric())}
    kept = {goal: guess, "about.samples": about.samples, "about.shares": about.shares}
    kept |= {"about.places": about.places} if about.places is not None else {}
    kept |= {"about.lead": torch.ones(1)} if about.lead else {}
    runfolder.save_recovered(store, cell.run.key, cell.key, kept, _originals(goal, truth, about, rows), looks)
    # Values are in the order of the targets, or, where these are mixtures, in the order of the samples.
    samples = tuple((rows if about.mixes else about.samples[:, 0]).tolist())
    return _outcome(cell, "done", "", store, prepared, scores, costs, samples)


def _originals(goal: str, truth: Truth, about: About, rows: Tensor) -> Tensor | None:
    """What a picture shows above the guesses."""
    if goal != "inputs" or truth.modality != "image" or about.mixes:
        return None
    return truth.values[members_of(about, rows)[: runfolder.SHOWN, 0]]


def _trained(cell: Cell, store: Store) -> Trained | str:
    """The run to attack, or why there is none."""
    row = store.get(cell.run.key)
    if row is not None and row.status != "done":
        return f"its training {row.status}: {row.reason}"
    if not store.run_folder(cell.run.key).is_dir():
        return "its training is not in the store"
    return runfolder.load(store, cell.run.key)


def _identical(left: Trained, right: Trained) -> bool:
    one, other = runfolder.state(left.prepared), runfolder.state(right.prepared)
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


def _with_metrics(cell: Cell, stored: Outcome, store: Store, metrics: Sequence[Part]) -> Outcome | None:
    """A stored outcome, scored with any metric that it was not scored with before; None if what to score is lost."""
    present = {(s.metric, s.version) for s in stored.scores}
    wanted = every_metric(metrics)
    goal = "labels" if stored.kind == "train" else stored.goal
    missing = [
        (part, metric)
        for part, metric in wanted
        if (part.name, components.scored_as(part)) not in present and metric.goal == goal
    ]
    if missing:
        # Most of what is missing does not apply to such data, and no network has to be loaded to see that.
        truth = truth_like(load_data(cell.run.data), goal)
        missing = [(part, metric) for part, metric in missing if metric.applies(truth) is None]
    if not missing:
        return stored
    if stored.weights != runfolder.weights_digest(store.run_folder(stored.run)):
        return stored  # the run is damaged: nothing can be added, and nothing must be lost
    if stored.kind == "attack" and not runfolder.recovered_file(store, stored.run, stored.key).is_file():
        return None
    prepared = runfolder.load(store, stored.run).prepared
    if stored.kind == "train":
        further = utility(prepared, missing)
    else:
        kept = runfolder.load_recovered(store, stored.run, stored.key)
        owners = kept["about.samples"].new_zeros(kept["about.samples"].shape)
        about = About(
            kept["about.samples"], owners, kept["about.shares"], kept.get("about.places"), "about.lead" in kept
        )
        assert cell.attack is not None
        truth, rows = truth_of(prepared, components.build(cell.attack), about)
        ranked = next((s.readout for s in stored.scores if s.readout), "clamp")
        further = leakage(goal, kept[goal], about, truth, rows, missing, ranked)
    if not further:
        return stored  # what is missing does not apply here
    replaced = {s.metric for s in further}
    outcome = replace(stored, scores=(*(s for s in stored.scores if s.metric not in replaced), *further))
    store.put(outcome)
    return outcome


def _outcome(
    cell: Cell,
    status: Status,
    reason: str,
    store: Store,
    prepared: Prepared | None = None,
    scores: Sequence[Score] = (),
    costs: dict[str, float] | None = None,
    samples: tuple[int, ...] = (),
) -> Outcome:
    spec = cell.run
    attack: Attack | None = components.build(cell.attack) if cell.attack else None
    return Outcome(
        key=cell.key,
        run=spec.key,
        kind="attack" if cell.attack else "train",
        status=status,
        reason=reason,
        scale=spec.scale,
        dataset=spec.data.name,
        modality=prepared.data.modality if prepared else load_data(spec.data).modality,
        model=spec.model.name,
        cut=spec.cut,
        topology=spec.topology.name,
        clients=spec.clients,
        defense=components.defense_label(spec),
        attack=components.label(cell.attack) if cell.attack else "",
        seed=spec.seed,
        created=time.time(),
        cell=cell.document(),
        goal=attack.goal if attack else "",
        party=cell.threat.party if cell.threat else "",
        role=attack.role if attack else "",
        device=str(device.current()),
        twin=cell.twin.key,
        bars=_bars(cell, attack, {score.metric for score in scores}),
        provenance=runfolder.provenance(prepared) if prepared else {},
        scores=tuple(scores),
        costs=costs or {},
        samples=samples,
        weights=runfolder.weights_digest(store.run_folder(spec.key)),
    )


def _bars(cell: Cell, attack: Attack | None, scored: set[str]) -> tuple[tuple[str, float], ...]:
    """What the undefended twin must reach for this row to say anything: of the attack, in the metrics that apply to
    these data, or of the task."""
    if attack is None:
        return tuple(sorted(cell.bar.items()))
    found = {metric: bars.get(cell.run.data.name, bars.get("*")) for metric, bars in attack.bars.items()}
    return tuple((metric, float(bar)) for metric, bar in sorted(found.items()) if bar is not None and metric in scored)
