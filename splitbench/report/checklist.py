"""What must be asked of a defense before its numbers are believed, answered from the rows of a run.

The questions are those of Carlini et al., "On Evaluating Adversarial Robustness", 2019 (https://arxiv.org/abs/1902.06705),
for reconstruction from smashed data, and those that split learning adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from splitbench.report.checklist_questions import QUESTIONS, Answer, Item, Subject
from splitbench.report.run_rows import find_run, rows_of
from splitbench.store.store import Store

MARKS: dict[Answer, str] = {"yes": "x", "no": "!", "unanswered": " "}


@dataclass(frozen=True)
class Checklist:
    run: str
    about: str
    items: tuple[Item, ...]

    @property
    def unanswered(self) -> list[Item]:
        return [item for item in self.items if item.answer == "unanswered"]

    def markdown(self) -> str:
        counts = {answer: sum(item.answer == answer for item in self.items) for answer in MARKS}
        lines = [f"## Evaluation checklist of run {self.run}", "", self.about, ""]
        lines += [f"{counts['yes']} yes, {counts['no']} no, {counts['unanswered']} unanswered.", ""]
        for item in self.items:
            lines.append(f"- [{MARKS[item.answer]}] **{item.question}** {item.answer}: {item.evidence}")
        if self.unanswered:
            lines += ["", "Unanswered:", ""]
            lines += [f"- {item.question} {item.ask}".rstrip() for item in self.unanswered]
        return "\n".join(lines) + "\n"


def checklist(run: str = "latest", *, store: Path | str | None = None) -> Checklist:
    place = Store(store)
    outcomes, _ = place.outcomes()
    key = find_run(outcomes, run, place)
    mine = Subject(key, place, rows_of(outcomes, key), {o.key: o for o in outcomes})
    first = mine.rows[0]
    model = f"{first.model} cut at {first.cut}"
    about = f"{first.dataset} · {model} · {first.topology} · defense {first.defense} · seed {first.seed}"
    return Checklist(key, about, tuple(question(mine) for question in QUESTIONS))
