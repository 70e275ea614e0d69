"""The questions of the checklist, each with how the rows of a run answer it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from splitbench.report.statistics.bootstrap import difference
from splitbench.report.statistics.calibration import doubt, reaches, utility_doubt
from splitbench.report.statistics.interval import half_width
from splitbench.report.statistics.ladder import falls
from splitbench.report.statistics.measured import Measured, Seed, flattened
from splitbench.report.statistics.worst import by_goal, looking, worst
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

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


def _ranked(o: Outcome) -> float | None:
    score = o.score(o.ranking)
    return score.value if score else None


def _value(o: Outcome) -> str:
    value = _ranked(o)
    return o.adversary if value is None else f"{o.adversary} {value:.3f}"


def _listed(outcomes: Sequence[Outcome], more: str = "") -> str:
    """Each with its value in the metric that ranks, which is said once for each goal."""
    metrics: dict[str, list[str]] = {}
    for o in outcomes:
        metrics.setdefault(o.ranking, []).append(_value(o))
    return "; ".join(f"{metric}{more} of {', '.join(values)}" for metric, values in metrics.items())


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
    return Item(question, "yes" if run.defended else "no", _listed(run.attacks)
                + ("" if run.defended else "; nothing defends this run"))  # fmt: skip


def _adaptive(run: Subject) -> Item:
    question = "Was it attacked by adversaries that know of the defense?"
    knowing = [o for o in run.attacks if o.knowledge not in ("", "none")]
    if not run.defended:
        return Item(question, "no", "nothing defends this run")
    if not knowing:
        ask = _again(run, "--knowledge exact", "inversion")
        return Item(question, "unanswered", "no attack knew anything of the defense", ask)
    return Item(question, "yes", _listed(knowing))


def _monotone(run: Subject) -> Item:
    question = "Are attacks that know more at least as strong as those that know less?"
    names: dict[str, set[str]] = {}
    for o in run.attacks:
        names.setdefault(o.attack, set()).add(o.knowledge)
    if not any(len(rungs) > 1 for rungs in names.values()):
        return Item(question, "unanswered", "no attack was mounted on two rungs of knowledge",
                    f"`splitbench attack inversion --run {run.key} --knowledge family`")  # fmt: skip
    fallen = list(dict.fromkeys(falls(run.rows).values()))
    return Item(question, "no" if fallen else "yes", "; ".join(fallen) or "more knowledge never recovers less")


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
    weak = []
    for o, twin in zip(run.attacks, twins, strict=True):
        floors = [s for f in run.role("floor") if f.goal == o.goal and (s := f.score(o.ranking))]
        score = twin.score(o.ranking) if twin else None
        if twin and not o.bars and floors and score:
            best = max(s.sign * s.value for s in floors)
            weak += [f"{_listed([twin], ' undefended')}, the best floor has {score.sign * best:.3f}"] * (
                score.sign * score.value <= best
            )
    if weak:
        return Item(question, "no", "; ".join(dict.fromkeys(weak)))
    return Item(question, "yes", _listed([t for t in twins if t], " undefended"))


def _floors(run: Subject) -> Item:
    question = "Are blind guesses reported beside it?"
    floors = run.role("floor")
    if not floors:
        return Item(question, "unanswered", "no floor was measured", f"`splitbench evaluate --run {run.key}`")
    return Item(question, "yes", _listed(floors))


def _bound(run: Subject) -> Item:
    question = "Is there an upper bound, a decoder that was shown true pairs?"
    bounds = run.role("bound")
    if not bounds:
        return Item(
            question, "unanswered", "no bound was measured", f"`splitbench attack oracle_decoder --run {run.key}`"
        )
    return Item(question, "yes", _listed(bounds))


def _doubled(run: Subject) -> Item:
    question = "Do twice the iterations change nothing?"
    said, changed = [], False
    for o in run.attacks:
        for longer in run.attacks:
            steps = o.costs.get("iterations", 0.0)
            same = (o.cell["attack"]["name"], o.cell.get("threat")) == (
                longer.cell["attack"]["name"], longer.cell.get("threat"))  # fmt: skip
            if (
                same
                and _ranked(o) is not None
                and _ranked(longer) is not None
                and steps
                and longer.costs.get("iterations") == 2 * steps
                and _effort(o) == _effort(longer)
            ):
                found = difference([_one(longer)], [_one(o)])
                if not isinstance(found, str):
                    score = o.score(o.ranking)
                    assert score is not None
                    gained = (found.low if score.sign > 0 else -found.high) > score.tolerance
                    changed |= gained
                    said.append(f"{o.adversary} {found.right:.3f} with {steps:g}, {found.left:.3f} with {2 * steps:g}")
    if not said:
        return Item(question, "unanswered", "no attack was given twice its iterations", _again(run, "--double"))
    return Item(question, "no" if changed else "yes", "; ".join(said))


def _effort(o: Outcome) -> Any:
    return o.cell.get("effort", {}).get("restarts", 1)


def _one(o: Outcome) -> Measured:
    score = o.score(o.ranking)
    assert score is not None
    return Measured(score.metric, o.dataset, {0: Seed.of(score, o.about(score), o.key)})


def _again(run: Subject, more: str, otherwise: str = "fora") -> str:
    """The command that mounts the first attack once more, with this option."""
    name = run.attacks[0].cell["attack"]["name"] if run.attacks else otherwise
    return f"`splitbench attack {name} --run {run.key} {more}`"


def _restarts(run: Subject) -> Item:
    question = "Were attacks started several times, and the best of each sample counted?"
    several = [o for o in run.attacks if _effort(o) > 1]
    if not several:
        ask = _again(run, "--restarts 3")
        return Item(question, "unanswered", "every attack was started once", ask)
    return Item(question, "yes", ", ".join(f"{_value(o)} with {_effort(o)} starts" for o in several))


def _budget(run: Subject) -> Item:
    question = "Is leakage recorded during the attack, to show that it levels off?"
    folder = run.store.run_folder(run.key) / "attacks"
    watched = [o.adversary for o in run.attacks if (folder / f"{o.key}.progress.png").is_file()]
    if not watched:
        return Item(question, "unanswered", "no intermediate reconstructions are stored with this run")
    return Item(question, "yes", f"pictures of {', '.join(watched)} in {folder.name}/*.progress.png")


def _rounds(run: Subject) -> Item:
    question = "Was the defense's randomness averaged out, by sending the same sample many times?"
    many = [o for o in run.attacks if int(o.cell.get("threat", {}).get("rounds", 1)) > 1]
    if not many:
        ask = _again(run, "--rounds 8")
        return Item(question, "unanswered", "every attack was sent each sample once", ask)
    return Item(question, "yes", ", ".join(f"{_value(o)} over {o.cell['threat']['rounds']} rounds" for o in many))


def _fixed(run: Subject) -> Item:
    question = "Does an attack that holds the defense's secret succeed?"
    exact = [o for o in run.attacks if o.knowledge == "exact"]
    if not exact:
        return Item(question, "unanswered", "no attack was given the secret",
                    f"`splitbench attack inversion --run {run.key} --knowledge exact`")  # fmt: skip
    worked = [o for o in exact if all((s := o.score(metric)) is not None and reaches(s, bar) for metric, bar in o.bars)]
    return Item(question, "yes" if worked else "no", _listed(exact))


def _worst(run: Subject) -> Item:
    question = "Is the worst case reported: sample by sample, the attack that leaks most?"
    if len(run.attacks) < 2:
        return Item(question, "unanswered", "fewer than two attacks were mounted",
                    f"`splitbench attack unsplit --run {run.key}`")  # fmt: skip
    said = []
    for mounted in by_goal(run.attacks).values():
        found = worst(mounted)
        if len(mounted) < 2 or found.mean is None:
            continue
        half = half_width(np.array(found.values))
        interval = "" if half is None else f" ±{half:.3f}"
        said.append(f"{found.metric} {found.mean:.3f}{interval} over {found.n} {found.unit}s, {found.who()}")
    if not said:
        return Item(question, "unanswered", "no two attacks recover the same thing, or none of them was scored")
    return Item(question, "yes", "; ".join(said))


def _active(run: Subject) -> Item:
    question = "Was a malicious server considered, one that does not keep to the protocol?"
    # Not by whether the replay came out the same: on another number of threads it does not, whoever listens.
    active = [o for o in run.attacks if any(cost.endswith("_under_attack") for cost in o.costs)]
    if not active:
        ask = f"`splitbench attack fsha --run {run.key} --tampers`"
        return Item(question, "unanswered", "no attack changed what was sent", ask)
    return Item(question, "yes", _listed(active))


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
    question = "Are the metrics versioned, with a value for each sample?"
    scored = [o for o in run.attacks if o.scores]
    if not scored:
        return Item(question, "unanswered", "nothing was scored")
    versions = sorted({f"{s.metric}@{s.version}" for o in scored for s in o.scores})
    each = all(o.about(s) for o in scored for s in o.scores if s.values)
    over = f"{len(scored[0].samples)} {scored[0].unit}s"
    return Item(question, "yes" if each else "no", f"{', '.join(versions)} over {over}")


def _price(run: Subject) -> Item:
    question = "Is the price reported: what the task loses, and what is sent?"
    if run.trained is None or not run.trained.scores:
        return Item(question, "unanswered", "its training is not in the store")
    task = ", ".join(f"{s.metric} {s.value:.3f}" for s in run.trained.scores)
    sent = ", ".join(f"{name} {value:g}" for name, value in run.trained.costs.items() if name.startswith("bytes"))
    return Item(question, "yes", f"{task}; {sent}")


def _learned(run: Subject) -> Item:
    question = "Did the undefended network learn the task, so that utility means something?"
    if run.trained is None:
        return Item(question, "unanswered", "its training is not in the store")
    if said := utility_doubt(run.trained, run.everything):
        return Item(question, "no", said)
    bare = run.trained if run.trained.defense == "none" else run.everything.get(run.trained.twin)
    score = bare.score(bare.ranking) if bare is not None and bare.status == "done" else None
    if bare is None or score is None:
        return Item(question, "unanswered", "the undefended training is not in the store")
    if not run.trained.bars and "chance" not in bare.costs:
        return Item(question, "unanswered", f"{score.metric} {score.value:.3f} undefended, and no bar was declared",
                    "Give the recipe a `bar`.")  # fmt: skip
    bars = ", ".join(f"the bar is {metric} {bar:g}" for metric, bar in run.trained.bars)
    chance = f"the commonest label gives {bare.costs['chance']:.3f}" if "chance" in bare.costs else ""
    beside = ", ".join(part for part in (bars, chance) if part)
    return Item(question, "yes", f"{score.metric} {score.value:.3f} undefended; {beside}")


def _gaps(run: Subject) -> Item:
    question = "Is everything that was tried reported, failures included?"
    missing = [f"{o.adversary or 'training'} {o.status}: {o.reason}" for o in run.rows if o.status != "done"]
    return Item(question, "yes", "; ".join(missing) or f"{len(run.rows)} rows, all done")


QUESTIONS: tuple[Callable[[Subject], Item], ...] = (
    _threat, _whole, _adaptive, _monotone, _undefended, _floors, _bound, _doubled, _restarts, _budget, _rounds, _fixed,
    _worst, _active, _seeds, _disjoint, _metric, _learned,
    _price, _gaps,
)  # fmt: skip
