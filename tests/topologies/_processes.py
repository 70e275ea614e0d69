"""Every party in a process of its own, with a pipe between any two of them."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import Any

import torch
from torch import Tensor

from splitbench.core.message import Message
from splitbench.core.party import Party
from splitbench.core.schedule import Receive, alone
from splitbench.core.wire import Wire
from splitbench.runner.parties import programs
from tests.topologies._small import Descent, Scene, state

Build = Callable[[], Scene]
Left = tuple[dict[str, Tensor], Counter[Any]]  # a party's weights, and what it sent


def context() -> BaseContext:
    """Processes that begin without threads of this one, and with torch imported once for all of them."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(
        ["torch.fx.experimental.symbolic_shapes", "splitbench.runner.parties", "tests.topologies._small"]
    )
    return found


def trained_apart(build: Build, parties: list[Party]) -> dict[Party, Left]:
    """What is left of each party after it ran its program by itself. `build` runs in every process."""
    start = context()
    ends: dict[Party, dict[Party, Connection]] = {party: {} for party in parties}
    for one, other in itertools.combinations(parties, 2):
        ends[one][other], ends[other][one] = start.Pipe()
    reports, processes = {}, []
    for party in parties:
        reports[party], report = start.Pipe()
        process = start.Process(target=_live, args=(build, party, ends[party], report), daemon=True)
        process.start()
        processes.append(process)
        report.close()
    # A pipe whose ends are all elsewhere breaks when a party dies, and nobody waits for it for ever.
    for mine in ends.values():
        for end in mine.values():
            end.close()
    try:
        return {party: pickle.loads(report.recv_bytes()) for party, report in reports.items()}
    finally:
        for process in processes:
            process.join(20)
            process.kill()


def _live(build: Build, party: Party, ends: dict[Party, Connection], report: Connection) -> None:
    torch.set_num_threads(1)
    split = build()
    me = split.members[party]
    (program,) = programs(split.topology, {party: me}, split.plan).values()
    if me.stages:
        me.learner = Descent(me.stages)
    wire = Wire()
    boxes: dict[tuple[Party, str, int], deque[Message]] = defaultdict(deque)

    def post(message: Message) -> None:
        ends[message.receiver].send_bytes(pickle.dumps(wire.carry(message)))

    def fetch(wish: Receive) -> Message:
        box = boxes[wish.sender, wish.kind, wish.cut]
        while not box:
            message: Message = pickle.loads(ends[wish.sender].recv_bytes())
            boxes[message.sender, message.kind, message.cut].append(message)
        return box.popleft()

    with me.at_work():
        alone(program, post, fetch)
    report.send_bytes(pickle.dumps((state(me.stages), wire.traffic)))
