"""The adversary's side of a run: what it is shown, and what it makes of it. The truth stays here."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.data import as_input
from splitbench.core.errors import CellError
from splitbench.core.progress import Budget, limited
from splitbench.core.randomness import derive, generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, Recovered, View
from splitbench.core.wire import Message, Wire
from splitbench.plan import components
from splitbench.plan.cells import Cell, RunSpec
from splitbench.runner.prepare import Prepared, prepare, template
from splitbench.runner.train import Trained, smash, train


def refusal(cell: Cell, prepared: Prepared) -> str | None:
    """Why this attack cannot be mounted on this run, or None if it can."""
    assert cell.attack is not None
    assert cell.threat is not None
    attack: Attack = components.build(cell.attack)
    if len(prepared.models[0].stages) == 1:
        return f"nothing crosses the wire in the topology '{cell.run.topology.name}'"
    if attack.modality not in (None, prepared.data.modality):
        return f"{cell.attack.name} recovers {attack.modality}, {cell.run.data.name} is {prepared.data.modality}"
    return attack.lacks(cell.threat)


def mount(
    cell: Cell, trained: Trained, *, restart: int = 0, asked: Trained | None = None, budget: Budget | None = None
) -> tuple[Recovered, Trained]:
    """Run the attack. An online attack attends a replay of the training, whose networks are returned.

    `asked` is the run whose client answers queries, if that is not the one attacked.
    """
    assert cell.attack is not None
    assert cell.threat is not None
    attack: Attack = components.build(cell.attack)
    purpose = ("attack", cell.attack.name, *([restart] if restart else []))
    noise = generator(cell.run.seed, *purpose)
    if isinstance(attack, OnlineAttack):
        trained = replay(attack, cell, noise)
    with (
        view_of(trained, cell.threat, asked=asked, restart=restart) as view,
        seeded(cell.run.seed, *purpose),
        limited(budget),
    ):
        recovered = attack.run(view, noise)
    _check(recovered, view, cell.attack.name)
    return recovered, trained


def replay(attack: OnlineAttack, cell: Cell, noise: torch.Generator) -> Trained:
    """The training again from its seed, with the attack listening. Its own draws move nothing of the run's."""
    assert cell.threat is not None
    if attack.recalls is not None and not isinstance(attack, ActiveAttack):  # who tampers has to be there
        trained, last = _overheard(cell.run, attack.recalls)
        with view_of(trained, cell.threat, live=True) as view, seeded(cell.run.seed, "attend"):
            attack.begin(view, noise)
        for message in last:
            attack.hear(message)
        return trained
    prepared = prepare(cell.run)
    with view_of(Trained(prepared, Wire(prepared.defense), ()), cell.threat, live=True) as view:
        with seeded(cell.run.seed, "attend"):
            attack.begin(view, noise)

        def listen(message: Message) -> None:
            if "server" in (message.sender.role, message.receiver.role):
                with torch.random.fork_rng(devices=[]), torch.enable_grad():
                    attack.hear(replace(message, tensor=message.tensor.clone(), samples=None))

        def tamper(message: Message) -> Message:
            assert isinstance(attack, ActiveAttack)
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                return attack.tamper(replace(message, samples=None))

        active = isinstance(attack, ActiveAttack) and cell.threat.tampers
        return train(prepared, [listen], tamper if active else None)


_RECENT = 2  # replays whose last messages are kept, a hundred megabytes each: a recipe often goes between two runs
_heard: dict[tuple[str, int], tuple[Trained, list[Message]]] = {}


def _overheard(run: RunSpec, samples: int) -> tuple[Trained, list[Message]]:
    """The run replayed, and what the attacked client sent from its last `samples` on. Attacks on the same run, and
    their restarts, listen to one replay: they change nothing, so they would all hear the same."""
    if (run.key, samples) not in _heard:
        kept: deque[Message] = deque()
        sent = 0

        def listen(message: Message) -> None:
            nonlocal sent
            if message.receiver.role != "server" or message.sender.index != 0:
                return
            kept.append(replace(message, tensor=message.tensor.detach().clone(), samples=None))
            sent += _samples(message)
            while sent - _samples(kept[0]) >= samples:
                sent -= _samples(kept.popleft())

        trained = train(prepare(run), [listen])
        if len(_heard) == _RECENT:
            _heard.pop(next(iter(_heard)))
        _heard[run.key, samples] = trained, list(kept)
    return _heard[run.key, samples]


def _samples(message: Message) -> int:
    return len(message.tensor) if message.kind == "smashed" else 0


@contextmanager
def view_of(
    trained: Trained, threat: ThreatModel, live: bool = False, asked: Trained | None = None, restart: int = 0
) -> Iterator[View]:
    """The adversary's view of a run; `live` shows the server's own layers as they change, for an online attack."""
    prepared, spec = trained.prepared, trained.prepared.spec
    victim = prepared.models[0]
    targets, public = prepared.evaluation, prepared.auxiliary
    server = victim.owned_by("server")

    def answer(x: torch.Tensor) -> torch.Tensor:
        source = (asked or trained).prepared
        return smash(source.models[0], x, source.defense, queries)

    queries = generator(spec.seed, "queries")
    built = itertools.count()  # every template is initialised anew
    # At the start of a replay there is nothing to recover yet: the targets are sent when training is over.
    x = as_input(targets.x)
    draws = generator(spec.seed, "targets")
    sent = [smash(victim, x if not live else x[:0], prepared.defense, draws) for _ in range(threat.rounds)]
    granted = slice(0, threat.auxiliary)
    imagined = prepared.defense.known(threat.knowledge, sent[0])
    with Query.open(answer, threat.queries) as query:
        yield View(
            threat=threat,
            targets=sent[0] if len(sent) == 1 else imagined.merge(torch.stack(sent)),
            shape=prepared.data.shape,
            classes=prepared.data.classes,
            stages=server if live else [copy.deepcopy(stage).requires_grad_(False).eval() for stage in server],
            labels=targets.y.clone() if threat.labels and not live else None,
            template=(
                lambda: template(spec, derive(spec.seed, "adversary", *([restart] if restart else []), next(built)))
            )
            if threat.architecture
            else None,
            auxiliary=Auxiliary(as_input(public.x[granted]), public.y[granted]) if threat.auxiliary else None,
            query=query if threat.queries else None,
            defense=imagined,
            heard=[replace(m, samples=None) for m in trained.wire.transcript] if threat.transcript else (),
        )


def _check(recovered: Recovered, view: View, name: str) -> None:
    """An attack that returns nonsense has failed; it must not become a score."""
    if recovered.inputs is not None:
        wanted = (len(view.targets), *view.shape)
        if tuple(recovered.inputs.shape) != wanted:
            raise CellError(f"{name} returned inputs of shape {tuple(recovered.inputs.shape)}, expected {wanted}")
        if not bool(torch.isfinite(recovered.inputs).all()):
            raise CellError(f"{name} returned inputs that are not finite")
