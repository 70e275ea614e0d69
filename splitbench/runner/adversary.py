"""The adversary's side of a run: what it is shown, and what it makes of it. The truth stays here."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn

from splitbench.core import device
from splitbench.core.attack import ActiveAttack, Attack, OnlineAttack
from splitbench.core.errors import CellError
from splitbench.core.hidden import Hidden
from splitbench.core.layout import by_rank
from splitbench.core.message import About, Message
from splitbench.core.party import Party, client
from splitbench.core.progress import Budget, limited
from splitbench.core.randomness import derive, generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, Recovered, View
from splitbench.core.wire import Wire
from splitbench.plan import components
from splitbench.plan.cells import Cell, RunSpec
from splitbench.runner.inference import smash
from splitbench.runner.prepare import Prepared, given, prepare, template
from splitbench.runner.targets import Observed, labels_of, observe, wanted_kind
from splitbench.runner.train import Trained, train


@dataclass(frozen=True)
class Mounted:
    """What an attack recovered, of what, and the run it attended."""

    recovered: Recovered
    about: About  # the samples its targets are about
    trained: Trained


class RefusedError(CellError):
    """An attack that cannot be mounted, as its targets show."""


def refusal(cell: Cell, prepared: Prepared) -> str | None:
    """Why this attack cannot be mounted on this run, or None if it can."""
    assert cell.attack is not None
    assert cell.threat is not None
    attack: Attack = components.build(cell.attack)
    if len(prepared.owners) == 1:
        return f"nothing crosses the wire in the topology '{cell.run.topology.name}'"
    if not attack.works_on(prepared.data.modality):
        kinds = " and ".join(attack.modalities())
        return f"{cell.attack.name} works on {kinds}, {cell.run.data.name} is {prepared.data.modality}"
    if Party.named(cell.threat.party) not in prepared.members:
        there = ", ".join(map(str, prepared.members))
        return f"there is no {cell.threat.party} in this run; there is {there}"
    public = cell.run.auxiliary if cell.run.auxiliary_digest != cell.run.data_digest else None
    if public is not None and attack.uses_public_labels:
        return (
            f"{cell.attack.name} uses the labels of auxiliary samples, and those of {public.name} mean something else "
            f"than those of {cell.run.data.name}"
        )
    if attack.goal == "membership" and attack.aims == "training":
        return f"{cell.attack.name} aims at messages of the training, which are all about members: there is no telling"
    if attack.goal == "membership" and not cell.run.samples.candidates:
        return "needs candidates=1 but the run set none aside; train it with --candidates (samples: {candidates: 200})"
    return attack.lacks(cell.threat)


def mount(
    cell: Cell, trained: Trained, *, restart: int = 0, asked: Trained | None = None, budget: Budget | None = None
) -> Mounted:
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
    observed = observed_by(attack, trained, cell.threat)
    if attack.needs.labels and observed.labels is None:
        raise RefusedError(
            f"{cell.attack.name} needs the label of each target, and a target here is about several samples"
        )
    with (
        view_of(trained, cell.threat, attack.goal, observed, asked=asked, restart=restart) as view,
        seeded(cell.run.seed, *purpose),
        limited(budget),
    ):
        recovered = attack.run(view, noise)
    _check(recovered, view, attack, cell.attack.name)
    return Mounted(recovered, observed.about, trained)


def observed_by(attack: Attack, trained: Trained, threat: ThreatModel) -> Observed:
    """The messages that the attack is to make something of."""
    prepared, party = trained.prepared, Party.named(threat.party)
    if attack.aims == "training":
        return _from_training(prepared, party)
    samples, rows = prepared.evaluation, prepared.allocation.evaluation
    if attack.goal == "membership":
        samples, _ = prepared.candidates
        rows = torch.arange(len(samples))
    return observe(prepared, party, samples.x, samples.y, rows, threat.rounds)


def _from_training(prepared: Prepared, party: Party) -> Observed:
    """The last messages of the training that reached the party, as many samples as are evaluated."""
    count, kind = len(prepared.allocation.evaluation), wanted_kind(party)
    _, heard = _overheard(prepared.spec, count, party)
    kept = [m for m in heard if m.kind == kind and m.cut == 0]
    if not kept:
        raise CellError(f"nothing of the kind '{kind}' reached the {party} in the training")
    about = About.cat([m.about for m in kept if m.about is not None])
    targets = torch.cat([m.tensor for m in kept])
    last = slice(-count, None)
    train = prepared.data.train
    labels = labels_of(about[last], torch.arange(len(train)), train.y)
    victim = prepared.members[party if party.role == "client" else client(0)]
    together = prepared.plan.batch if victim.defense.joint else 1
    return Observed(targets[last][None], about[last], (tuple(m.seen() for m in heard),), labels, together)


def replay(attack: OnlineAttack, cell: Cell, noise: torch.Generator) -> Trained:
    """The training again from its seed, with the attack listening. Its own draws change nothing of the run's."""
    assert cell.threat is not None
    party = Party.named(cell.threat.party)
    if attack.recalls is not None and not isinstance(attack, ActiveAttack):  # who tampers has to be there
        trained, last = _overheard(cell.run, attack.recalls, party)
        with view_of(trained, cell.threat, attack.goal, None, live=True) as view, seeded(cell.run.seed, "attend"):
            attack.begin(view, noise)
        for message in last:
            attack.hear(message.seen())
        return trained
    prepared = prepare(cell.run)
    with view_of(Trained(prepared, Wire(), ()), cell.threat, attack.goal, None, live=True) as view:
        with seeded(cell.run.seed, "attend"):
            attack.begin(view, noise)

        def listen(message: Message) -> None:
            if party in (message.sender, message.receiver):
                with torch.random.fork_rng(devices=[]), torch.enable_grad():
                    attack.hear(message.seen())

        def tamper(message: Message) -> Message:
            assert isinstance(attack, ActiveAttack)
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                return replace(attack.tamper(message.seen()), about=message.about)

        active = isinstance(attack, ActiveAttack) and cell.threat.tampers
        return train(prepared, [listen], tamper if active else None, party)


_RECENT = 2  # replays whose last messages are kept, a hundred megabytes each: a recipe often goes between two runs
_heard: dict[tuple[str, int, Party], tuple[Trained, list[Message]]] = {}


def _overheard(run: RunSpec, samples: int, party: Party) -> tuple[Trained, list[Message]]:
    """The run replayed, and what reached the party from its last `samples` on: of the first client, if it has several.

    Attacks on the same run, and their restarts, listen to one replay: they change nothing, so they would all hear the
    same.
    """
    known = run.key, samples, party
    if known not in _heard:
        kept: deque[Message] = deque()
        sent, kind = 0, wanted_kind(party)

        def size(message: Message) -> int:
            return len(message.tensor) if message.kind == kind and message.cut == 0 else 0

        def listen(message: Message) -> None:
            nonlocal sent
            first = message.sender.index == 0 or party.role == "client"
            if message.receiver != party or not first or message.kind == "weights":
                return
            kept.append(message)
            sent += size(message)
            while sent - size(kept[0]) >= samples:
                sent -= size(kept.popleft())

        trained = train(prepare(run), [listen])
        if len(_heard) == _RECENT:
            _heard.pop(next(iter(_heard)))
        _heard[known] = trained, list(kept)
    return _heard[known]


@contextmanager
def view_of(
    trained: Trained,
    threat: ThreatModel,
    goal: str,
    observed: Observed | None,
    live: bool = False,
    asked: Trained | None = None,
    restart: int = 0,
) -> Iterator[View]:
    """The adversary's view of a run; `live` shows the party's own layers as they change, for an online attack."""
    prepared, spec = trained.prepared, trained.prepared.spec
    party = Party.named(threat.party)
    victim = prepared.members[party if party.role == "client" else client(0)]
    own = prepared.members[party].stages
    public = prepared.data.train.take(prepared.clients[victim.party.index]) if threat.private else prepared.auxiliary

    def answer(x: torch.Tensor) -> torch.Tensor:
        source = (asked or trained).prepared
        return torch.stack([smash(source, x, queries) for _ in range(threat.rounds)])

    queries = generator(spec.seed, "queries")
    built = itertools.count()  # every template is initialised anew
    if observed is None:  # at the start of a replay nothing was sent yet
        shape = prepared.layout.shape if prepared.layout is not None else ()
        targets = torch.zeros(threat.rounds, 0, *shape, device=device.current())
    else:
        targets = observed.targets
    granted = slice(0, threat.auxiliary)
    labels = observed.labels if threat.labels and goal != "labels" and observed is not None else None
    layout = victim.defense.sends(prepared.layout) if prepared.layout is not None else None
    if layout is not None and tuple(targets.shape[2:]) != layout.shape:
        layout = by_rank(targets.shape[2:])
    candidates = prepared.candidates[0] if goal == "membership" and spec.samples.candidates else None

    def layers() -> nn.Module:
        return copy.deepcopy(victim.stages[0]).requires_grad_(False).eval()

    def fresh() -> nn.Module:
        seed = derive(spec.seed, "adversary", *([restart] if restart else []), next(built))
        return template(spec, seed, threat.knowledge)

    # Hidden: what builds a template knows the run's secrets.
    with Query.open(answer, threat.queries) as query, Hidden.open(fresh) as known, Hidden.open(layers) as trained_too:
        yield View(
            threat=threat,
            targets=targets,
            shape=prepared.data.shape,
            classes=prepared.data.classes,
            stages=own if live else [copy.deepcopy(stage).requires_grad_(False).eval() for stage in own],
            modality=prepared.data.modality,
            fields=prepared.data.fields,
            layout=layout,
            messages=[[m.seen() for m in round_] for round_ in observed.messages] if observed is not None else (),
            labels=labels,
            batch=observed.batch if observed is not None else 1,
            template=known if threat.architecture else None,
            client=trained_too if threat.weights else None,
            auxiliary=_public(public.x[granted], public.y[granted]) if threat.auxiliary else None,
            candidates=_public(candidates.x, candidates.y) if candidates is not None and not live else None,
            query=query if threat.queries else None,
            imagined=victim.defense.imagined(threat.knowledge, targets[0]),
            heard=_heard_by(party, trained.wire.transcript) if threat.transcript else (),
        )


def _heard_by(party: Party, transcript: Sequence[Message]) -> list[Message]:
    """What others said to each other, weights between clients for example, a party did not hear."""
    return [m.seen() for m in transcript if party in (m.sender, m.receiver)]


def _public(x: torch.Tensor, y: torch.Tensor) -> Auxiliary:
    # Copies: a slice would lead back to samples that were not granted.
    return Auxiliary(given(x).contiguous().clone(), y.to(device.current()).clone())


def _check(recovered: Recovered, view: View, attack: Attack, name: str) -> None:
    """An attack that returns nonsense has failed; it must not become a score."""
    guess = getattr(recovered, attack.goal, None)
    if guess is None:
        raise CellError(f"{name} declares the goal '{attack.goal}' and returned none")
    if len(guess) != len(view):
        raise CellError(f"{name} returned {len(guess)} guesses for {len(view)} targets")
    if attack.goal == "inputs" and tuple(guess.shape[1:]) != tuple(view.shape):
        wanted = (len(view), *view.shape)
        raise CellError(f"{name} returned inputs of shape {tuple(guess.shape)}, expected {wanted}")
    if guess.is_floating_point() and not bool(torch.isfinite(guess).all()):
        raise CellError(f"{name} returned {attack.goal} that are not finite")
