"""The report as one HTML file: gathered, judged, drawn, and put into a template that escapes everything."""

from __future__ import annotations

import base64
import gc
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from splitbench import __version__
from splitbench.report.claims.scorecard import counted, told
from splitbench.report.page import ablation, histories, ladders, pareto
from splitbench.report.page.answer import RULE, answer
from splitbench.report.page.gallery import PAIRS
from splitbench.report.page.gallery import gallery as pictures
from splitbench.report.page.gather import Gathered, gather
from splitbench.report.page.runs import runs
from splitbench.report.page.tables import heads, plans, scorecard, sides, tables
from splitbench.report.page.verdicts import COSTS, standings
from splitbench.store.index import remembering
from splitbench.store.outcome import UTILITY
from splitbench.store.store import Store

SETTINGS = 12  # that are shown at once
PLOTS = 24  # of one section
TABLES = 60  # of one recipe
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Report:
    html: str
    problems: tuple[str, ...]  # files of the store, by name, that could not be used
    rows: int
    runs: int
    pictures: int


def report(store: Path | str | None = None, *, gallery: int = PAIRS) -> Report:
    """One self-contained HTML page about everything in a store."""
    collecting = gc.isenabled()
    gc.disable()  # it would go through every row of a large store again and again, and find nothing to collect
    try:
        with remembering():
            return _made(gather(Store(store)), gallery)
    finally:
        if collecting:
            gc.enable()


def _made(rows: Gathered, gallery: int) -> Report:
    _missing_folders(rows)
    planned, not_run = plans(rows)
    found = standings(rows)
    shown = pictures(rows, found, gallery)
    sections = {
        "pareto": pareto.plots(found, PLOTS),
        "ablations": ablation.plots(rows, PLOTS),
        "ladders": ladders.plots(rows, found, PLOTS),
        "histories": histories.plots(rows, found, PLOTS),
    }
    css, js = ((_HERE / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    environment = Environment(
        loader=PackageLoader("splitbench.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    every = runs(rows)
    scored, unjudged = scorecard(rows, planned)
    shown_tables = tables(rows, planned)
    made = environment.get_template("report.html").render(
        answer=answer(rows, found, not_run),
        rule=RULE,
        utility=UTILITY,
        costs=[cost for cost in COSTS if any(cost.key in s.costs for s in found)],
        settings=[list(group) for _, group in groupby(found, key=lambda s: s.group)],
        gallery=shown,
        shared=pareto.shared_costs(found),
        first=SETTINGS,
        most=TABLES,
        tables=shown_tables,
        scorecard=scored,
        unjudged=unjudged,
        heads=heads,
        sides=sides,
        counted=counted,
        told=told,
        plans=planned,
        runs=every,
        problems=list(dict.fromkeys(rows.problems)),
        counts={"rows": len(rows.outcomes), "runs": len(every)},
        filters=_filters(rows),
        version=__version__,
        newest=datetime.fromtimestamp(max(o.created for o in rows.outcomes), timezone.utc).strftime("%Y-%m-%d"),
        css=Markup(css),
        js=Markup(js),
        policy=_policy(css, js),
        **sections,
    )
    return Report(made, tuple(dict.fromkeys(rows.problems)), len(rows.outcomes), len(every), len(shown.entries))


def _policy(css: str, js: str) -> str:
    """Nothing may be loaded from anywhere, and no script or style runs but ours."""
    own = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)]
    return (
        f"default-src 'none'; style-src 'sha256-{own[0]}'; script-src 'sha256-{own[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _missing_folders(rows: Gathered) -> None:
    """A store of rows alone is one thing; a run folder that somebody deleted is another."""
    done = [o for o in rows.outcomes if o.kind == "train" and o.status == "done"]
    gone = [o.run for o in done if not rows.store.run_folder(o.run).is_dir()]
    if gone and len(gone) == len(done):
        rows.problems.append("no run has its folder here, only rows: no pictures and no training curves")
    else:
        said = "is gone: its rows are shown, its pictures and curve are not"
        rows.problems.extend(f"trained/{run} {said}" for run in gone)


def _filters(rows: Gathered) -> Mapping[str, Sequence[str]]:
    return {
        "dataset": sorted({o.dataset for o in rows.outcomes}),
        "defense": sorted({rows.defense_of[o.run] for o in rows.outcomes if o.defense != "none"}),
        "attack": sorted({o.attack for o in rows.outcomes if o.kind == "attack" and o.role != "floor"}),
    }
