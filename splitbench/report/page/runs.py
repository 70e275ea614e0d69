"""Every run, with the commands that make it and the attacks on it again."""

from __future__ import annotations

from dataclasses import dataclass

from splitbench.report.page.gather import Gathered, prose
from splitbench.report.page.verdicts import score
from splitbench.report.reproduce import Command, Sources, again
from splitbench.store.outcome import Outcome


@dataclass(frozen=True)
class Run:
    key: str
    training: Outcome | None
    setting: str
    dataset: str
    defense: str
    seed: int
    command: Command
    attacks: tuple[tuple[str, str, Command], ...]  # attacker, what became of it, command


def runs(rows: Gathered) -> list[Run]:
    trainings = {o.run: o for o in rows.outcomes if o.kind == "train"}
    first = {o.run: o for o in reversed(rows.outcomes)}
    order = {key: i for i, key in enumerate(rows.settings)}
    sources = Sources()
    found = []
    for run, o in sorted(first.items(), key=lambda item: (order[rows.setting_of[item[0]]], item[1].seed, item[0])):
        setting = rows.settings[rows.setting_of[run]]
        attacks = tuple(
            (rows.attacker_of[a.key], _became(a), again(a.cell, sources, run)) for a in rows.attacks_on.get(run, ())
        )
        command = again({"run": o.cell.get("run")}, sources)
        name = "undefended" if o.defense == "none" else rows.defense_of[run]
        found.append(Run(run, trainings.get(run), setting.name, o.dataset, name, o.seed, command, attacks))
    return found


def _became(o: Outcome) -> str:
    value = score(o)
    if o.status != "done":
        return f"{o.status}: {o.reason}"
    leak = prose(o.ranking)
    return f"{leak} {value:.3f}" if value is not None else f"done, without {leak}"
