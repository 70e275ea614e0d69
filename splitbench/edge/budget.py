"""Which choices a budget leaves, best first; or which of its limits leaves none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.edge.device import Device, Figure
from splitbench.edge.profile import Profile
from splitbench.edge.units import duration, energy, size
from splitbench.plan import components
from splitbench.store.outcome import Outcome
from splitbench.store.store import Store

_UNITS = {
    "memory": {"kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30, "b": 1},
    "traffic": {"kb": 1e3, "mb": 1e6, "gb": 1e9, "b": 1},
    "step": {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60},
    "round": {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60, "h": 3600},
    "energy": {"j": 1, "mj": 1e-3, "kj": 1e3},
    "uplink": {"bit/s": 1, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9},
    "downlink": {"bit/s": 1, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9},
}
LINKS = ("uplink", "downlink")  # what there is, not what may be used
_EXAMPLES = {"memory": "2GB", "traffic": "10MB", "step": "1s", "round": "5min", "energy": "5J", "uplink": "10Mbit/s",
             "downlink": "10Mbit/s"}  # fmt: skip


@dataclass(frozen=True)
class Budget:
    limits: Mapping[str, float]  # memory, step, round, energy, traffic: at most
    links: Mapping[str, float]  # uplink, downlink: bits per second

    def on(self, device: Device) -> Device:
        """The device on this network."""
        given = {name: Figure(value=value, source="given: --budget") for name, value in self.links.items()}
        return device.model_copy(update=given)


def parse(text: str) -> Budget:
    """`memory=2GB,step=1s,uplink=10Mbit/s`; raises with every mistake."""
    found: dict[str, float] = {}
    mistakes: list[Mistake] = []
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _UNITS:
            mistakes.append(Mistake("budget", f"no limit named '{name}'{nearest(name, _UNITS)}"))
            continue
        amount = re.fullmatch(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([A-Za-z/]+)", value)
        unit = _UNITS[name].get(amount[2].lower()) if amount else None
        if amount is None or unit is None or float(amount[1]) <= 0:
            said = f"expected an amount such as {_EXAMPLES[name]}, got '{value}'; units: {', '.join(_UNITS[name])}"
            mistakes.append(Mistake(f"budget.{name}", said))
            continue
        found[name] = float(amount[1]) * unit
    if not mistakes and not set(found) - set(LINKS):
        mistakes.append(Mistake("budget", "a link is no limit; add one such as step=1s or memory=2GB"))
    if mistakes:
        raise SplitbenchError(mistakes)
    return Budget({k: v for k, v in found.items() if k not in LINKS}, {k: v for k, v in found.items() if k in LINKS})


def need(profile: Profile, name: str) -> float:
    """What a choice takes of a limit: the prediction itself, whose uncertainty is printed beside it."""
    if name == "traffic":
        return float(profile.step.traffic.up + profile.step.traffic.down)
    found = {"memory": "memory", "step": "seconds", "round": "round_seconds", "energy": "joules"}[name]
    return float(getattr(profile, found).value)


@dataclass(frozen=True)
class Choice:
    profile: Profile
    excess: float  # the largest of need / limit; at most 1 is feasible
    tightest: str
    accuracy: float | None = None
    leakage: float | None = None  # of inputs, by the metric that ranks: the attack that recovers most
    where: str = ""  # the data sets that these are from

    @property
    def known(self) -> bool:
        return self.accuracy is not None and self.leakage is not None

    @property
    def rank(self) -> tuple[float, ...]:
        """Known ones first, by accuracy less leakage; then by seconds a sample."""
        pace = self.profile.seconds.value / self.profile.case.batch
        if self.accuracy is not None and self.leakage is not None:
            return 0, self.leakage - self.accuracy, pace
        return 1, 0, pace


def choices(profiles: Sequence[Profile], budget: Budget, store: Store) -> list[Choice]:
    """Every one of them, best first; those that are not feasible last, the nearest first."""
    outcomes = store.outcomes()[0]
    found = [_choice(profile, budget, outcomes) for profile in profiles]
    feasible = sorted((c for c in found if c.excess <= 1), key=lambda c: c.rank)
    return feasible + sorted((c for c in found if c.excess > 1), key=lambda c: c.excess)


def _choice(profile: Profile, budget: Budget, outcomes: Sequence[Outcome]) -> Choice:
    # The device's own memory is a limit that nobody need name.
    limits = {"memory": profile.device.available, **budget.limits}
    limits["memory"] = min(limits["memory"], profile.device.available)
    ratios = {name: need(profile, name) / limit for name, limit in limits.items()}
    tightest = max(ratios, key=lambda name: ratios[name])
    accuracy, leakage, where = _stored(profile, outcomes)
    return Choice(profile, ratios[tightest], tightest, accuracy, leakage, where)


def _stored(profile: Profile, outcomes: Sequence[Outcome]) -> tuple[float | None, float | None, str]:
    """What the store knows of this model, cut and defense: mean accuracy, and the worst attack's mean leakage."""
    case = profile.case
    mine = [
        o
        for o in outcomes
        if o.status == "done"
        and (o.model, o.cut, o.defense) == (case.model.name, case.cut, case.defense)
        and case.dataset in ("", o.dataset)
    ]
    trained = [s.value for o in mine if o.kind == "train" and (s := o.score("accuracy")) is not None]
    attacks: dict[str, list[float]] = {}
    for o in mine:
        score = o.score(o.ranking)
        if (o.kind, o.role, o.goal) == ("attack", "attack", "inputs") and score is not None:
            attacks.setdefault(o.adversary, []).append(score.value)
    means = [sum(values) / len(values) for values in attacks.values()]
    accuracy = sum(trained) / len(trained) if trained else None
    return accuracy, max(means, default=None), ", ".join(sorted({o.dataset for o in mine}))


def said(name: str, value: float) -> str:
    return {"memory": size, "traffic": size, "energy": energy}.get(name, duration)(value)


def why_none(nearest_choice: Choice, budget: Budget) -> str:
    """Which limit is the tightest, and what the nearest choice would take."""
    profile, name = nearest_choice.profile, nearest_choice.tightest
    taken = need(profile, name)
    own = name not in budget.limits or budget.limits[name] > profile.device.available
    limit = profile.device.available if name == "memory" and own else budget.limits[name]
    what = f"the {size(limit)} that are free on {profile.device.name}" if own else f"{name}={said(name, limit)}"
    case = profile.case
    choice = f"{components.label(case.model)} cut at {case.cut}, batch {case.batch}, {case.defense}"
    return (
        f"nothing fits: {what} is the tightest limit. The nearest choice is {choice}, which takes {said(name, taken)}, "
        f"{nearest_choice.excess:.2g} times as much"
    )
