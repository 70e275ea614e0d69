"""The scorecard: what a paper's text claims, judged on our rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Literal

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.plan import recipes
from splitbench.plan.axes import short
from splitbench.plan.cells import SCALES
from splitbench.plan.claim import At, Claim, Comparison, Either
from splitbench.plan.paper import Paper, load
from splitbench.report import positions
from splitbench.report.statistics.bootstrap import FEWEST, Difference, difference
from splitbench.report.statistics.calibration import planned_bars
from splitbench.report.statistics.measured import Measured, Rows, planned_seeds
from splitbench.report.unreadable import damage_notes
from splitbench.store.store import Store

Verdict = Literal["holds", "fails", "not separable", "uncalibrated", "not run"]
# What one question says of the whole claim, the first that occurs.
ORDER: tuple[Verdict, ...] = ("fails", "not run", "uncalibrated", "not separable", "holds")


@dataclass(frozen=True)
class Judged:
    """One question of a claim, and its answer."""

    about: str
    relation: str
    verdict: Verdict
    why: str = ""
    difference: Difference | None = None
    paper: Verdict | None = None  # by the paper's own values, where it prints them
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scored:
    recipe: str
    table: str
    claim: Claim
    verdict: Verdict
    judged: tuple[Judged, ...]
    scale: str = "desk"

    @property
    def counts(self) -> dict[Verdict, int]:
        found = Counter(j.verdict for j in self.judged)
        return {verdict: found[verdict] for verdict in ORDER if found[verdict]}

    @property
    def deciding(self) -> Judged:
        """The question that decides: of those with the verdict of the whole, the farthest on the wrong side."""
        mine = [j for j in self.judged if j.verdict == self.verdict]
        return max(mine, key=lambda j: _excess(j))

    @property
    def paper(self) -> Verdict | None:
        """By the paper's own values, as far as it prints them."""
        found = {j.paper for j in self.judged if j.paper}
        return next((verdict for verdict in ORDER if verdict in found), None)


def _excess(judged: Judged) -> float:
    d = judged.difference
    if d is None:
        return float("-inf")
    value = d.value if judged.relation != "above" else -d.value
    return abs(d.value) if judged.relation == "within" else value


def claims(
    what: str | None = None, *, store: Path | str | None = None, scale: str = "desk"
) -> tuple[list[Scored], list[str]]:
    """Every claim of a paper (`seal`), of a recipe (`seal/table2`), or of all recipes, and what could not be read."""
    if scale not in SCALES:
        raise SplitbenchError(f"no scale named '{scale}'{nearest(scale, SCALES)}")
    place = Store(store)
    outcomes, damaged = place.outcomes()
    notes = damage_notes(place, damaged, outcomes)
    scored: list[Scored] = []
    papers = _papers(what)
    read = {paper.recipe: paper for paper in papers}
    for paper in papers:
        further = [read.setdefault(name, read.get(name) or load(name)) for name in paper.also]
        plans = [plan for p in (paper, *further) if (plan := place.plan(p.recipe, scale))]
        wanted = {key for plan in plans for key in plan["cells"]}
        mine = [o for o in outcomes if o.key in wanted]
        mine = positions.counted(place, mine) if _asks(paper, positions.METRIC) else mine
        rows = Rows(mine, [*outcomes, *mine], planned_seeds(*plans), bars=planned_bars(*plans))
        scored += [replace(s, scale=scale) for s in judge(paper, rows, further)]
    return scored, notes


def _asks(paper: Paper, metric: str) -> bool:
    """Whether a claim is about this metric."""
    return any(
        metric in (given if isinstance(given := one.left["metric"], list) else [given])
        for claim in paper.claims
        for c in claim.compare
        for one in (c.several if isinstance(c, Either) else (c,))
    )


def _papers(what: str | None) -> list[Paper]:
    names = recipes.names()
    if what is None:
        chosen = names
    elif what in names or what.endswith((".yaml", ".yml")):
        chosen = [what]
    else:
        chosen = [name for name in names if name.startswith(f"{what.rstrip('/')}/")]
        if not chosen:
            folders = {name.rpartition("/")[0] for name in names if "/" in name}
            raise SplitbenchError(f"no paper or recipe '{what}'{nearest(what, {*names, *folders})}")
    papers = [paper for name in chosen if (paper := load(name)).claims]
    if not papers:
        raise SplitbenchError(f"'{what}' makes no claims: its `paper:` block has none")
    return papers


def judge(paper: Paper, rows: Rows, further: Sequence[Paper] = ()) -> list[Scored]:
    """Every claim of one paper block on these rows."""
    scored = []
    for claim in paper.claims:
        judged = tuple(j for comparison in claim.compare for j in _answered(comparison, paper, rows, further))
        found = {j.verdict for j in judged}
        verdict = next(verdict for verdict in ORDER if verdict in found)
        scored.append(Scored(paper.recipe, paper.table, claim, verdict, judged))
    return scored


def _answered(c: Comparison | Either, paper: Paper, rows: Rows, further: Sequence[Paper]) -> list[Judged]:
    """Of alternatives the one that is best for the claim, question by question."""
    if isinstance(c, Comparison):
        return _compared(c, paper, rows, further)
    alternatives = [_compared(one, paper, rows, further) for one in c.several]
    return [_best(several) for several in zip(*alternatives, strict=True)]


def _best(several: Sequence[Judged]) -> Judged:
    chosen = max(several, key=lambda j: ORDER.index(j.verdict))
    own = [ORDER.index(j.paper) for j in several if j.paper is not None]
    return replace(
        chosen,
        about=" or ".join(j.about for j in several),
        paper=ORDER[max(own)] if own else None,
        keys=tuple(dict.fromkeys(key for j in several for key in j.keys)),
    )


def _compared(c: Comparison, paper: Paper, rows: Rows, further: Sequence[Paper]) -> list[Judged]:
    names = {axis: tuple(values) for axis, values in paper.names.items()}
    judged = []
    for left, right in c.pairs(names, paper.where):
        relation, about = c.relation, _about(c, left, right, paper)
        own = _by_the_paper(c, left, right, (paper, *further))
        measured = [rows.measure(paper.meant(at)) for at in left]
        others: list[Measured] | float
        if right == "twin":
            others = [rows.twin(paper.meant(at)) for at in left]
        elif isinstance(right, list):
            others = [rows.measure(paper.meant(at)) for at in right]
        else:
            others = float(right)
        sides = [*measured, *(others if isinstance(others, list) else [])]
        keys = tuple(dict.fromkeys(key for m in sides for key in m.keys))
        absent = [(at, m) for at, m in zip([*left, *(right if isinstance(right, list) else left)], sides, strict=False)
                  if m.seeds is None]  # fmt: skip
        if absent:
            at, m = absent[0]
            other = at not in left or m.note != "not run"  # the left side is told already
            why = "" if not other else m.note if m.note != "not run" else f"not run: {_place(at, paper.where)}"
            judged.append(Judged(about, relation, "not run", why, None, own, keys))
            continue
        factor = 1.0 if relation == "within" else c.factor
        found = difference(measured, others, factor)
        if isinstance(found, str):
            judged.append(Judged(about, relation, "not run", found, None, own, keys))
            continue
        verdict, why = _verdict(c, found), ""
        if not found.varies:
            verdict, why = "not separable", f"fewer than {FEWEST} values: too few for an interval"
        if useless := next((m.doubt for m in sides if m.utility and m.doubt), ""):
            # A network that never learned the task has no utility to keep or to lose.
            verdict, why = "uncalibrated", f"cannot show what the defense costs; {useless}"
        doubts = [m.doubt for m in measured if m.doubt and not m.utility]
        if found.varies and doubts and (right == "twin" or (verdict == "holds" and _protects(c, left, measured))):
            # Beside a twin that the attack did not recover nothing is shown: both may be what guessing gives.
            verdict, why = "uncalibrated", f"cannot show what the defense does; {doubts[0]}"
        judged.append(Judged(about, relation, verdict, why, found, own, keys))
    return judged


def _verdict(c: Comparison, d: Difference) -> Verdict:
    if c.relation == "within":
        if d.low > -c.margin and d.high < c.margin:
            return "holds"
        return "fails" if d.low >= c.margin or d.high <= -c.margin else "not separable"
    low, high = d.low - c.offset, d.high - c.offset
    if c.relation == "below":
        return "holds" if high < 0 else "fails" if low >= 0 else "not separable"
    return "holds" if low > 0 else "fails" if high <= 0 else "not separable"


def _protects(c: Comparison, left: Sequence[At], measured: Sequence[Measured]) -> bool:
    """Whether the claim says that little leaks: what a weak attack would show of any defense."""
    if any(m.utility or m.cost for m in measured) or left[0].get("defense") == "none":
        return False
    leaks = "above" if measured[0].leaks_when == "high" else "below"
    return c.relation not in (leaks, "within")


def _by_the_paper(
    c: Comparison, left: Sequence[At], right: float | str | Sequence[At], papers: Sequence[Paper]
) -> Verdict | None:
    """The same question to the values that the paper prints, which have no interval."""
    own = papers[0]
    if right == "twin":
        right = [{**at, **own.undefended} for at in left] if own.undefended else []

    def printed(cells: Sequence[At]) -> list[float | None]:
        return [next((v for p in papers if (v := p.value(at)) is not None), None) for at in cells]

    one = printed(left)
    two = printed(right) if isinstance(right, list) else [float(right)] * len(left)  # type: ignore[arg-type]
    if len(one) != len(two):
        return None
    # Of a mean, what the paper prints on both sides.
    both = [(a, b) for a, b in zip(one, two, strict=True) if a is not None and b is not None]
    if not both:
        return None
    a, b = mean(a for a, _ in both), mean(b for _, b in both)
    gap = a - (1.0 if c.relation == "within" else c.factor) * b
    return _verdict(c, Difference(a, b, gap, gap, gap, None, 1, 1, False))


def _place(at: Mapping[str, str], fixed: Mapping[str, str]) -> str:
    """Where a cell stands, without what is the same all over the table."""
    return ", ".join(f"{short(axis)}={v}" for axis, v in at.items() if axis != "metric" and fixed.get(axis) != v)


def _about(c: Comparison, left: Sequence[At], right: float | str | Sequence[At], paper: Paper) -> str:
    def said(cells: Sequence[At], but: Mapping[str, str] | None = None) -> str:
        words = []
        for axis in cells[0]:
            values = list(dict.fromkeys(at[axis] for at in cells))
            told = {**paper.where, **(but or {})}
            if axis != "metric" and not (len(values) == 1 and told.get(axis) == values[0]):
                label = "mean" if len(values) > 1 else values[0]
                words.append(f"{short(axis)}={label}" if len(values) == 1 else f"mean over {short(axis)}")
        return ", ".join(words)

    metric = left[0]["metric"]
    if isinstance(right, list):
        other = said(right, left[0] if len(left) == 1 else None) or "the same"
    else:
        other = "undefended" if right == "twin" else f"{right:g}"
    return f"{metric} of {said(left) or 'all'} {c.bound()} {other}"
