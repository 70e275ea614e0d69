"""How the trainings went, where their folders are still there."""

from __future__ import annotations

from splitbench.report.histories import losses_of
from splitbench.report.page import plot_axis
from splitbench.report.page.gather import Gathered
from splitbench.report.page.plot import Line, Mark, Plot, Section, section
from splitbench.report.page.verdicts import Standing

LINES = 10  # of one plot


def plots(rows: Gathered, standings: list[Standing], most: int) -> Section:
    """One a setting: the loss of each defense's first seed, epoch by epoch."""
    found: dict[str, list[tuple[Standing, list[float]]]] = {}
    seen: set[tuple[str, str]] = set()
    for standing in standings:
        if (standing.setting.key, standing.defense) in seen:  # told of another goal
            continue
        seen.add((standing.setting.key, standing.defense))
        for run in sorted((o for o in standing.runs if o.status == "done"), key=lambda o: o.seed)[:1]:
            losses = losses_of(rows.store, run, rows.problems)
            if len(losses) > 1:
                found.setdefault(standing.setting.key, []).append((standing, losses))
    return section([_plot(f"history-{key}", curves) for key, curves in found.items()], most)


def _plot(key: str, curves: list[tuple[Standing, list[float]]]) -> Plot:
    shown = curves[:LINES]
    lines = []
    for standing, losses in shown:
        base = standing.verdict == "undefended"
        name = "undefended" if base else standing.defense
        data = {} if base else {"defense": standing.defense}
        marks = tuple(
            Mark(i + 1, v, f"{name}, epoch {i + 1}: loss {v:.3f}", kind="base" if base else "plain", data=data)
            for i, v in enumerate(losses)
        )
        lines.append(Line(marks, name, "base" if base else "plain", data))
    epochs = max(len(losses) for _, losses in shown)
    setting = shown[0][0].setting
    told = "; ".join(f"{line.label} from {line.marks[0].y:.3f} to {line.marks[-1].y:.3f}" for line in lines)
    return Plot(
        key,
        "Training loss",
        setting.name,
        setting.dataset,
        f"Over {epochs} epochs: {told}.",
        plot_axis.through("epoch", [float(i + 1) for i in range(epochs)]),
        plot_axis.linear("loss on the private samples", [*(v for _, of in shown for v in of), 0.0], 0.04),
        (),
        tuple(lines),
        ("epoch", *(line.label for line in lines)),
        tuple((str(i + 1), *(f"{of[i]:.3f}" if i < len(of) else "–" for _, of in shown)) for i in range(epochs)),
        f"{len(curves) - LINES} more defenses are not drawn." if len(curves) > LINES else "",
    )
