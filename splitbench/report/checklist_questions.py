"""The questions of the checklist, each with how the rows of a run answer it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from splitbench.core import registry
from splitbench.report.statistics.bootstrap import difference
from splitbench.report.statistics.calibration import doubt
from splitbench.report.statistics.interval import half_width
from splitbench.report.statistics.ladder import falls
from splitbench.report.statistics.measured import Measured, Seed, flattened
from splitbench.report.statistics.worst import looking, worst
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

METRIC = "ssim"
Answer = Literal["yes", "no", "unanswered"]


@dataclass(frozen=True)
class Item:
    question: str
    answer: Answer
    evidence: str
    ask: str = ""  # what would answer it


@dataclass(frozen=True)
class Subject:
    """What the questions are asked of."""

    key: str
    store: Store
    rows: Sequence[Outcome]
    everything: Mapping[str, Outcome]

    @property
    def trained(self) -> Outcome | None:
        return next((o for o in self.rows if o.kind == "train"), None)

    @property
    def attacks(self) -> list[Outcome]:
        """That look at what was sent, and finished."""
        return [o for o in looking(self.rows) if o.status == "done"]

    @property
    def defended(self) -> bool:
        return any(o.cell["run"].get("defenses") for o in self.rows)

    def role(self, role: str) -> list[Outcome]:
        return [o for o in self.rows if o.kind == "attack" and o.status == "done" and o.role == role]


def _value(o: Outcome) -> str:
    score = o.score(METRIC)
    return f"{o.adversary} {score.value:.3f}" if score else o.adversary


def _listed(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(map(_value, outcomes))


def _threat(run: Subject) -> Item:
    question = "Is the threat model stated, capability by capability?"
    if not run.attacks:
        return Item(question, "unanswered", "no attack was mounted", f"`splitbench attack inversion --run {run.key}`")
    told = dict.fromkeys(
        ", ".join(f"{name}={json.dumps(value)}" for name, value in o.cell.get("threat", {}).items())
        for o in run.attacks
    )
    return Item(question, "yes", "; ".join(told))


def _whole(run: Subject) -> Item:
    question = "Was the whole defense attacked, by attacks that look at what it sends?"
    if not run.attacks:
        return Item(question, "unanswered", "no attack was mounted", f"`splitbench attack inversion --run {run.key}`")
    return Item(question, "yes" if run.defended else "no", f"{METRIC} of {_listed(run.attacks)}"
                + ("" if run.defended else "; nothing defends this run"))  # fmt: skip


def _adaptive(run: Subject) -> Item:
    question = "Was it attacked by adversaries that know of the defense?"
    knowing = [o for o in run.attacks if o.knowledge not in ("", "none")]
    if not run.defended:
        return Item(question, "no", "nothing defends this run")
    if not knowing:
        ask = _again(run, "--knowledge exact", "inversion")
        return Item(question, "unanswered", "no attack was told anything of the defense", ask)
    return Item(question, "yes", f"{METRIC} of {_listed(knowing)}")


def _monotone(run: Subject) -> Item:
    question = "Are attacks that know more at least as strong as those that know less?"
    names: dict[str, set[str]] = {}
    for o in run.attacks:
        names.setdefault(o.attack, set()).add(o.knowledge)
    if not any(len(rungs) > 1 for rungs in names.values()):
        return Item(question, "unanswered", "no attack was mounted on two rungs of knowledge",
                    f"`splitbench attack inversion --run {run.key} --knowledge family`")  # fmt: skip
    fallen = list(dict.fromkeys(falls(run.rows, METRIC).values()))
    return Item(question, "no" if fallen else "yes", "; ".join(fallen) or "no rung recovers less than a lower one")


def _undefended(run: Subject) -> Item:
    question = "Do the attacks succeed where nothing defends?"
    if not run.attacks:
        return Item(question, "unanswered", "no attack was mounted", f"`splitbench attack inversion --run {run.key}`")
    doubts = list(dict.fromkeys(d for o in run.attacks if (d := doubt(o, run.everything))))
    if doubts:
        return Item(question, "no", "; ".join(doubts))
    twins = [run.everything.get(o.twin) for o in run.attacks]
    if missing := [o.adversary for o, twin in zip(run.attacks, twins, strict=True) if twin is None]:
        return Item(question, "unanswered", f"the twin of {', '.join(missing)} is not in the store")
    floor = max((s.value for o in run.role("floor") if (s := o.score(METRIC))), default=0.0)
    weak = [
        t for o, t in zip(run.attacks, twins, strict=True) if t and not o.bar and t.ranked.get(METRIC, 0.0) <= floor
    ]
    if weak:
        return Item(question, "no", f"{METRIC} undefended of {_listed(weak)}, the best floor has {floor:.3f}")
    return Item(question, "yes", f"{METRIC} undefended of {_listed([t for t in twins if t])}")


def _floors(run: Subject) -> Item:
    question = "Is what an attacker gets who looks at nothing told beside it?"
    floors = run.role("floor")
    if not floors:
        return Item(question, "unanswered", "no floor was measured", f"`splitbench evaluate --run {run.key}`")
    return Item(question, "yes", f"{METRIC} of {_listed(floors)}")


def _bound(run: Subject) -> Item:
    question = "Is there an upper bound, a decoder that was shown true pairs?"
    bounds = run.role("bound")
    if not bounds:
        return Item(
            question, "unanswered", "no bound was measured", f"`splitbench attack oracle_decoder --run {run.key}`"
        )
    return Item(question, "yes", f"{METRIC} of {_listed(bounds)}")


def _doubled(run: Subject) -> Item:
    question = "Do twice the iterations change nothing?"
    said, changed = [], False
    for o in run.attacks:
        for longer in run.attacks:
            steps = o.costs.get("iterations", 0.0)
            same = (o.cell["attack"]["name"], o.cell.get("threat")) == (
                longer.cell["attack"]["name"], longer.cell.get("threat"))  # fmt: skip
            if same and steps and longer.costs.get("iterations") == 2 * steps and _effort(o) == _effort(longer):
                found = difference([_one(longer)], [_one(o)])
                if not isinstance(found, str):
                    gained = found.low > float(registry.declared("metrics", METRIC, "tolerance"))
                    changed |= gained
                    said.append(f"{o.adversary} {found.right:.3f} with {steps:g}, {found.left:.3f} with {2 * steps:g}")
    if not said:
        return Item(question, "unanswered", "no attack was given twice its iterations", _again(run, "--double"))
    return Item(question, "no" if changed else "yes", "; ".join(said))


def _effort(o: Outcome) -> Any:
    return o.cell.get("effort", {}).get("restarts", 1)


def _one(o: Outcome) -> Measured:
    score = o.score(METRIC)
    assert score is not None
    return Measured(METRIC, o.dataset, {0: Seed(score.value, score.n, score.values, o.samples, o.key)})


def _again(run: Subject, more: str, otherwise: str = "fora") -> str:
    """The command that mounts the first attack once more, with this option."""
    name = run.attacks[0].cell["attack"]["name"] if run.attacks else otherwise
    return f"`splitbench attack {name} --run {run.key} {more}`"


def _restarts(run: Subject) -> Item:
    question = "Were attacks started several times, and the best of each image counted?"
    several = [o for o in run.attacks if _effort(o) > 1]
    if not several:
        ask = _again(run, "--restarts 3")
        return Item(question, "unanswered", "every attack was started once", ask)
    return Item(question, "yes", ", ".join(f"{_value(o)} with {_effort(o)} starts" for o in several))


def _budget(run: Subject) -> Item:
    question = "Is leakage known along the way, so that it can be seen to level off?"
    folder = run.store.run_folder(run.key) / "attacks"
    watched = [o.adversary for o in run.attacks if (folder / f"{o.key}.progress.png").is_file()]
    if not watched:
        return Item(question, "unanswered", "no looks on the way are stored with this run")
    return Item(question, "yes", f"pictures of {', '.join(watched)} in {folder.name}/*.progress.png")


def _rounds(run: Subject) -> Item:
    question = "Was the defense's randomness averaged out, the same image seen many times?"
    many = [o for o in run.attacks if int(o.cell.get("threat", {}).get("rounds", 1)) > 1]
    if not many:
        ask = _again(run, "--rounds 8")
        return Item(question, "unanswered", "every attack was sent each image once", ask)
    return Item(question, "yes", ", ".join(f"{_value(o)} over {o.cell['threat']['rounds']} rounds" for o in many))


def _fixed(run: Subject) -> Item:
    question = "Does an attack succeed that holds the defense's secret?"
    exact = [o for o in run.attacks if o.knowledge == "exact"]
    if not exact:
        return Item(question, "unanswered", "no attack was given the secret",
                    f"`splitbench attack inversion --run {run.key} --knowledge exact`")  # fmt: skip
    worked = [o for o in exact if not o.bar or ((s := o.score(METRIC)) is not None and s.value >= o.bar)]
    return Item(question, "yes" if worked else "no", f"{METRIC} of {_listed(exact)}")


def _worst(run: Subject) -> Item:
    question = "Is the worst case told, image by image the attack that leaks most?"
    if len(run.attacks) < 2:
        return Item(question, "unanswered", "fewer than two attacks were mounted",
                    f"`splitbench attack unsplit --run {run.key}`")  # fmt: skip
    found = worst(run.attacks, METRIC)
    values = np.array(found.values)
    half = half_width(values)
    interval = "" if half is None else f" ±{half:.3f}"
    won = ", ".join(f"{name} on {count}" for name, count in found.won.items())
    return Item(question, "yes", f"{METRIC} {values.mean():.3f}{interval} over {len(values)} images, won by {won}")


def _active(run: Subject) -> Item:
    question = "Was a server considered that does not keep to the protocol?"
    active = [o for o in run.attacks if o.costs.get("replay_identical") == 0.0]
    if not active:
        ask = f"`splitbench attack fsha --run {run.key} --tampers`"
        return Item(question, "unanswered", "no attack changed what was sent", ask)
    return Item(question, "yes", f"{METRIC} of {_listed(active)}")


def _seeds(run: Subject) -> Item:
    question = "Was it trained more than once, from other seeds?"
    if run.trained is None:
        return Item(question, "unanswered", "its training is not in the store")

    def but_seed(o: Outcome) -> str:
        return json.dumps({k: v for k, v in flattened(o.cell["run"]).items() if k != "seed"}, sort_keys=True)

    mine = but_seed(run.trained)
    same = sorted(
        o.seed for o in run.everything.values() if o.kind == "train" and o.status == "done" and but_seed(o) == mine
    )
    if len(same) < 2:
        return Item(question, "unanswered", f"seed {run.trained.seed} alone", "Give the recipe more `seeds`.")
    return Item(question, "yes", f"seeds {', '.join(map(str, same))}")


def _disjoint(run: Subject) -> Item:
    question = "Are private, auxiliary and evaluation samples disjoint?"
    digests = next((o.provenance["sample_digests"] for o in run.rows if "sample_digests" in o.provenance), None)
    if not digests:
        return Item(question, "unanswered", "no digests of the samples are stored with these rows")
    told = ", ".join(f"{name} {str(digest)[:12]}" for name, digest in digests.items())
    return Item(question, "yes", f"a run is refused otherwise; digests {told}")


def _metric(run: Subject) -> Item:
    question = "Are the metrics defined, with their versions, and values known for each image?"
    scored = [o for o in run.attacks if o.scores]
    if not scored:
        return Item(question, "unanswered", "nothing was scored")
    versions = sorted({f"{s.metric}@{s.version}" for o in scored for s in o.scores})
    each = all(len(s.values) == len(o.samples) > 0 for o in scored for s in o.scores if s.values)
    return Item(question, "yes" if each else "no", f"{', '.join(versions)} over {len(scored[0].samples)} images")


def _price(run: Subject) -> Item:
    question = "Is the price told: what the task loses, and what is sent?"
    if run.trained is None or not run.trained.scores:
        return Item(question, "unanswered", "its training is not in the store")
    task = ", ".join(f"{s.metric} {s.value:.3f}" for s in run.trained.scores)
    sent = ", ".join(f"{name} {value:g}" for name, value in run.trained.costs.items() if name.startswith("bytes"))
    return Item(question, "yes", f"{task}; {sent}")


def _gaps(run: Subject) -> Item:
    question = "Is everything that was tried told, what failed included?"
    missing = [f"{o.adversary or 'training'} {o.status}: {o.reason}" for o in run.rows if o.status != "done"]
    return Item(question, "yes", "; ".join(missing) or f"{len(run.rows)} rows, all done")


QUESTIONS: tuple[Callable[[Subject], Item], ...] = (
    _threat, _whole, _adaptive, _monotone, _undefended, _floors, _bound, _doubled, _restarts, _budget, _rounds, _fixed,
    _worst, _active, _seeds, _disjoint, _metric, _price, _gaps,
)  # fmt: skip
