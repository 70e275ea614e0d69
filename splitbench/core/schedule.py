"""Programs of parties, and how they run: side by side in one process, or one in each.

A program is a generator that yields what it sends and what it waits for. `together` runs all programs of a run in one
process; `alone` runs one of them, with whatever carries messages between processes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from splitbench.core.errors import SplitbenchError
from splitbench.core.message import Kind, Message
from splitbench.core.party import Party
from splitbench.core.wire import Wire


@dataclass(frozen=True)
class Send:
    """Hand a message to the wire, and go on."""

    message: Message


@dataclass(frozen=True)
class Receive:
    """Wait for the next message of a kind from a party."""

    sender: Party
    kind: Kind
    cut: int = 0


Program = Generator[Send | Receive, Message, Any]
AtWork = Callable[[Party], AbstractContextManager[None]]
_Place = tuple[Party, Party, Kind, int]  # receiver, sender, kind, cut


def _idle(_: Party) -> AbstractContextManager[None]:
    return nullcontext()


def together(programs: Mapping[Party, Program], wire: Wire, at_work: AtWork = _idle) -> dict[Party, Any]:
    """Run every program until it ends, each as far as its messages have come. Returns what each returned.

    `at_work` surrounds every stretch in which one party runs. The order of the parties decides only who goes first
    where several could: what a party computes depends on its own messages and random numbers alone.
    """
    boxes: dict[_Place, deque[Message]] = defaultdict(deque)
    waiting: dict[Party, _Place | None] = dict.fromkeys(programs)
    ready: deque[Party] = deque(programs)
    results: dict[Party, Any] = {}
    while ready:
        party = ready.popleft()
        program, place = programs[party], waiting.pop(party)
        answer: Message | None = boxes[place].popleft() if place is not None else None
        with at_work(party):
            while True:
                try:
                    wish = program.send(answer)  # type: ignore[arg-type]  # None starts it, and follows a `Send`
                except StopIteration as end:
                    results[party] = end.value
                    break
                answer = None
                if isinstance(wish, Send):
                    message = wire.carry(wish.message)
                    to = (message.receiver, message.sender, message.kind, message.cut)
                    boxes[to].append(message)
                    if waiting.get(message.receiver) == to and message.receiver not in ready:
                        ready.append(message.receiver)
                    continue
                wanted = (party, wish.sender, wish.kind, wish.cut)
                if boxes[wanted]:
                    answer = boxes[wanted].popleft()
                    continue
                waiting[party] = wanted
                break
    if waiting:
        stuck = "; ".join(f"{p} waits for {w[2]} from {w[1]}" for p, w in waiting.items() if w is not None)
        raise SplitbenchError(f"the programs of this topology wait for each other for ever: {stuck}")
    return results


def alone(program: Program, post: Callable[[Message], None], fetch: Callable[[Receive], Message]) -> Any:
    """Run one program, its messages carried by somebody else: `post` sends, `fetch` waits."""
    answer: Message | None = None
    while True:
        try:
            wish = program.send(answer)  # type: ignore[arg-type]
        except StopIteration as end:
            return end.value
        if isinstance(wish, Send):
            post(wish.message)
            answer = None
        else:
            answer = fetch(wish)
