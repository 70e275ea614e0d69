"""The `paper:` block of a recipe: a table as its paper prints it, with the paper's values, and what its text claims.

    paper:
      table: 5
      caption: Efficacy of SEAL for different values of omega
      percent: true                        # as the paper prints its values; here they are fractions. Or: [accuracy]
      digits: {mse: 4}                     # after the point, where 3 (of percentages 1) are not what is wanted
      where: {defense: seal}               # what all of the table is about
      means: {defense: {none: {training.frozen: true}}}    # what a value stands for besides, where rows differ in more
      rows: [attack, dataset]              # the outer one first
      columns: [omega, metric]
      names: {omega: {1.0: "1.0"}, ...}    # what stands on each axis, in the paper's order and words
      heads: {attack: Attack}              # what the paper calls an axis
      best: {along: attack, metric: ssim}  # which values compete for being printed bold
      undefended: {omega: 1.0}             # where this paper's tables have the undefended twin
      also: [seal/table2]                  # recipes whose rows and values the claims may compare with
      axes: [dataset, omega, attack, metric]
      values: {cifar10: {1.0: {fsha: {accuracy: 0.712, ssim: 0.903}}}}    # nested as `axes` says; null: empty there
      claims: [...]                        # see claim.py

A curve instead of a table has `layout: curve`, `x` (the axis of the numbers below it) and `lines` (the axis of its
lines) instead of rows and columns, and need not say what stands on them. `layout: gallery` is reconstructions, one line
of images for each place on its `rows`; `layout: losses` the loss of trainings epoch by epoch, a line likewise; `layout:
positions` the similarity of position embeddings.

Of several axes in the rows all combinations stand in the table, but for those that the values leave out.

An axis is a short name or a path into the document of a row (`defense.seal.omega`, `training.epochs`), see axes.py; a
metric may be a cost (`epsilon`). Nothing here loads torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from splitbench.core.errors import Mistake, SplitbenchError, nearest
from splitbench.plan import claim as claims_of
from splitbench.plan import recipes
from splitbench.plan.axes import check_axis, check_value, plain, resolve
from splitbench.plan.claim import Claim
from splitbench.plan.document import Document

LAYOUTS = ("table", "curve", "gallery", "losses", "positions")
KEYS = ("table", "layout", "x", "lines",
        "caption", "percent", "digits", "where", "means", "rows", "columns", "names", "heads", "best", "undefended",
        "also", "axes", "values", "claims")  # fmt: skip

_ABSENT = object()


@dataclass(frozen=True)
class Paper:
    recipe: str = ""
    title: str = ""
    table: str = ""
    layout: str = "table"
    caption: str = ""
    percent: bool | tuple[str, ...] = False  # of all values, or of these metrics
    digits: Mapping[str, int] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    heads: Mapping[str, str] = field(default_factory=dict)
    best: Mapping[str, str] = field(default_factory=dict)
    undefended: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    values: Any = None
    claims: tuple[Claim, ...] = ()

    @property
    def laid_out(self) -> bool:
        return bool(self.rows and self.columns)

    def in_percent(self, metric: str) -> bool:
        return self.percent if isinstance(self.percent, bool) else metric in self.percent

    def meant(self, at: Mapping[str, str]) -> dict[str, str]:
        """The place with all that its values stand for."""
        return {**self._stands_for(at), **at}

    def _stands_for(self, at: Mapping[str, str]) -> dict[str, str]:
        further = [self.means[axis].get(value, {}) for axis, value in at.items() if axis in self.means]
        return {axis: value for one in further for axis, value in one.items()}

    def value(self, at: Mapping[str, str]) -> float | None:
        """What the paper prints there; None where it prints nothing."""
        found = self._found(at)
        return float(found) if isinstance(found, int | float) else None

    def leaves_out(self, at: Mapping[str, str]) -> bool:
        """Whether the paper's table has no such place; one that is printed empty is `null` in the values."""
        return bool(self.axes) and self.values is not None and self._found(at) is _ABSENT

    def _found(self, at: Mapping[str, str]) -> Any:
        # What a value stands for is what the paper printed it of: with other settings it printed nothing.
        if not self.axes or any(at.get(axis, v) != v for axis, v in {**self.where, **self._stands_for(at)}.items()):
            return _ABSENT
        found = self.values
        for axis in self.axes:
            if found is None:
                return None  # empty from here on
            if not isinstance(found, Mapping) or axis not in at:
                return _ABSENT
            found = {plain(key): value for key, value in found.items()}.get(at[axis], _ABSENT)
        return found


def load(given: str | Path) -> Paper:
    """The block of a recipe, by name or path, checked by itself: the rest of the recipe may need data and torch."""
    name, path = recipes.find(str(given))
    document = Document.load(path)
    data = document.data if isinstance(document.data, dict) else {}
    # A recipe of profiles has rows of its own, which the edge reads.
    block = {} if recipes.counts_only(path) else data.get("paper") or {}
    document.refuse([*document.mistakes, *check(block)])
    return read(block, name, str(data.get("title") or ""))


def check(block: Any, where: str = "paper") -> list[Mistake]:
    """Every mistake in the block."""
    if not isinstance(block, Mapping):
        return [Mistake(where, f"expected settings, got {block!r}")]
    mistakes = [
        Mistake(f"{where}.{key}", f"no setting named '{key}'{nearest(str(key), KEYS)}")
        for key in block
        if key not in KEYS
    ]
    if not isinstance(block.get("caption", ""), str):
        mistakes.append(Mistake(f"{where}.caption", f"expected a text, got {block['caption']!r}"))
    mistakes += _check_percent(block.get("percent", False), f"{where}.percent")
    mistakes += _check_digits(block.get("digits", {}), f"{where}.digits")
    mistakes += _check_curve(block, where)
    for key in ("rows", "columns", "axes"):
        mistakes += _check_axes(block.get(key, []), f"{where}.{key}")
    for key in ("where", "undefended"):
        mistakes += _check_fixed(block.get(key, {}), f"{where}.{key}")
    mistakes += _check_means(block.get("means", {}), f"{where}.means")
    mistakes += _check_names(block, where)
    mistakes += _check_best(block, where)
    mistakes += _check_also(block.get("also", []), f"{where}.also")
    if not mistakes:
        mistakes += _check_layout(block, where)
        mistakes += _check_values(block.get("values"), tuple(block.get("axes", ())), f"{where}.values")
        named = {resolve(axis): tuple(map(plain, values)) for axis, values in block.get("names", {}).items()}
        mistakes += claims_of.check(block.get("claims", []), named, f"{where}.claims")
    return mistakes


def read(block: Mapping[str, Any], recipe: str, title: str) -> Paper:
    """The block as it is used; it was checked."""

    def fixed(key: str) -> dict[str, str]:
        return {resolve(axis): plain(value) for axis, value in block.get(key, {}).items()}

    def listed(key: str) -> tuple[str, ...]:
        return tuple(map(resolve, block.get(key, ())))

    names = {
        resolve(axis): {plain(value): str(label) for value, label in labels.items()}
        for axis, labels in block.get("names", {}).items()
    }
    curve = block.get("layout") == "curve"
    best = block.get("best", {})
    return Paper(
        recipe,
        title,
        str(block.get("table", "")),
        block.get("layout", "table"),
        block.get("caption", ""),
        tuple(block["percent"]) if isinstance(block.get("percent"), list) else block.get("percent", False),
        dict(block.get("digits", {})),
        fixed("where"),
        {
            resolve(axis): {
                plain(value): {resolve(a): plain(v) for a, v in further.items()} for value, further in meant.items()
            }
            for axis, meant in block.get("means", {}).items()
        },
        (resolve(block["x"]),) if curve else listed("rows"),
        (resolve(block.get("lines", "metric")),) if curve else listed("columns"),
        names,
        {resolve(axis): str(head) for axis, head in block.get("heads", {}).items()},
        {"along": resolve(best["along"]), "metric": best["metric"]} if best else {},
        fixed("undefended"),
        tuple(block.get("also", ())),
        listed("axes"),
        block.get("values"),
        claims_of.read(block.get("claims", ())),
    )


def _check_curve(block: Mapping[str, Any], where: str) -> list[Mistake]:
    layout = block.get("layout", "table")
    if layout not in LAYOUTS:
        return [Mistake(f"{where}.layout", f"no layout named '{layout}'{nearest(str(layout), LAYOUTS)}")]
    if layout != "curve":
        axes = ("x", "lines") if layout == "table" else ("x", "lines", "columns")
        said = "goes with `layout: curve`" if layout == "table" else f"`layout: {layout}` has only rows"
        return [Mistake(f"{where}.{k}", said) for k in axes if k in block]
    mistakes = [Mistake(f"{where}.{k}", "a curve has x and lines instead") for k in ("rows", "columns") if k in block]
    if "x" not in block:
        mistakes.append(Mistake(where, "a curve has no `x`: the axis of the numbers below it"))
    return [*mistakes, *(m for k in ("x", "lines") if k in block for m in check_axis(block[k], f"{where}.{k}"))]


def _check_axes(given: Any, where: str) -> list[Mistake]:
    if not isinstance(given, list):
        return [Mistake(where, f"expected a list of axes, got {given!r}")]
    if wrong := [m for i, axis in enumerate(given) for m in check_axis(axis, f"{where}[{i}]")]:
        return wrong
    known = list(map(resolve, given))
    return [Mistake(f"{where}[{i}]", f"'{given[i]}' is given twice") for i, a in enumerate(known) if a in known[:i]]


def _check_fixed(given: Any, where: str) -> list[Mistake]:
    if not isinstance(given, Mapping):
        return [Mistake(where, f"expected axes with a value each, got {given!r}")]
    return [
        mistake
        for axis, value in given.items()
        for mistake in check_axis(axis, f"{where}.{axis}") or check_value(axis, value, f"{where}.{axis}")
    ]


def _check_percent(given: Any, where: str) -> list[Mistake]:
    if isinstance(given, list):
        return [m for i, metric in enumerate(given) for m in check_value("metric", metric, f"{where}[{i}]")]
    return (
        []
        if isinstance(given, bool)
        else [Mistake(where, f"expected true or false, or a list of metrics, got {given!r}")]
    )


def _check_digits(given: Any, where: str) -> list[Mistake]:
    if not isinstance(given, Mapping) or not all(type(n) is int and 0 <= n <= 9 for n in given.values()):
        return [Mistake(where, f"expected metrics with how many digits each, got {given!r}")]
    return [m for metric in given for m in check_value("metric", metric, f"{where}.{metric}")]


def _check_means(given: Any, where: str) -> list[Mistake]:
    if not isinstance(given, Mapping) or not all(isinstance(meant, Mapping) for meant in given.values()):
        return [Mistake(where, "expected axes, each with its values and what they stand for besides")]
    mistakes: list[Mistake] = []
    for axis, meant in given.items():
        mistakes += check_axis(axis, f"{where}.{axis}")
        for value, further in meant.items():
            place = f"{where}.{axis}.{value}"
            mistakes += check_value(axis, value, place) if not check_axis(axis, "") else []
            mistakes += _check_fixed(further, place)
    return mistakes


def _check_names(block: Mapping[str, Any], where: str) -> list[Mistake]:
    mistakes: list[Mistake] = []
    names, heads = block.get("names", {}), block.get("heads", {})
    if not isinstance(names, Mapping) or not all(isinstance(labels, Mapping) for labels in names.values()):
        return [Mistake(f"{where}.names", "expected axes, each with its values and what the paper calls them")]
    for axis, labels in names.items():
        wrong = check_axis(axis, f"{where}.names.{axis}")
        mistakes += wrong or [m for v in labels for m in check_value(axis, v, f"{where}.names.{axis}.{v}")]
    if not isinstance(heads, Mapping):
        return [*mistakes, Mistake(f"{where}.heads", f"expected axes and what the paper calls them, got {heads!r}")]
    return mistakes + [m for axis in heads for m in check_axis(axis, f"{where}.heads.{axis}")]


def _check_best(block: Mapping[str, Any], where: str) -> list[Mistake]:
    best = block.get("best", {})
    if not isinstance(best, Mapping) or (best and set(best) != {"along", "metric"}):
        return [Mistake(f"{where}.best", f"expected {{along: an axis, metric: a metric}}, got {best!r}")]
    if not best:
        return []
    return [
        *check_axis(best["along"], f"{where}.best.along"),
        *check_value("metric", best["metric"], f"{where}.best.metric"),
    ]


def _check_also(given: Any, where: str) -> list[Mistake]:
    if not isinstance(given, list):
        return [Mistake(where, f"expected a list of recipes, got {given!r}")]
    names = recipes.names()
    return [
        Mistake(f"{where}[{i}]", f"no recipe named '{name}'{nearest(str(name), names)}")
        for i, name in enumerate(given)
        if name not in names
    ]


def _check_layout(block: Mapping[str, Any], where: str) -> list[Mistake]:
    curve, drawn = block.get("layout") == "curve", block.get("layout", "table") not in ("table", "curve")
    rows = [block["x"]] if curve else block.get("rows", [])
    columns = [block.get("lines", "metric")] if curve else block.get("columns", [])
    if not rows and not columns:
        return []
    names, fixed = ({resolve(axis) for axis in block.get(key, {})} for key in ("names", "where"))
    mistakes = [
        Mistake(f"{where}.{k}", "a layout has both rows and columns")
        for k in ("rows", "columns")
        if k not in block and not curve and not drawn
    ]
    for axis in (*rows, *columns):
        if resolve(axis) not in names and (not curve or axis == "metric"):
            mistakes.append(Mistake(f"{where}.names", f"does not say what stands on the axis '{axis}'"))
        if resolve(axis) in fixed:
            mistakes.append(Mistake(f"{where}.where.{axis}", f"'{axis}' is an axis of the table as well"))
    across = set(map(resolve, rows))
    mistakes += [
        Mistake(f"{where}.columns", f"'{axis}' is in the rows too") for axis in columns if resolve(axis) in across
    ]
    laid = {*across, *map(resolve, columns)}
    if "metric" not in laid | fixed and not drawn:
        mistakes.append(Mistake(where, "the metric is neither an axis nor in `where`"))
    along = block.get("best", {}).get("along")
    if along and resolve(along) not in laid:
        mistakes.append(Mistake(f"{where}.best.along", f"'{along}' is no axis of the table"))
    return mistakes


def _check_values(values: Any, axes: tuple[str, ...], where: str) -> list[Mistake]:
    """Values nested as `axes` says. Without `axes` nobody reads them, and nobody can say what is wrong."""
    if not axes or values is None:
        return []
    if not isinstance(values, Mapping):
        return [Mistake(where, f"expected values by {axes[0]}, got {values!r}")]
    mistakes: list[Mistake] = []
    for key, inner in values.items():
        place = f"{where}.{key}"
        wrong = check_value(axes[0], key, place)
        if not wrong and len(axes) > 1:
            wrong = _check_values(inner, axes[1:], place)
        elif not wrong and not (inner is None or (isinstance(inner, int | float) and not isinstance(inner, bool))):
            wrong = [Mistake(place, f"expected a number or null, got {inner!r}")]
        mistakes += wrong
    return mistakes


def of_plan(plan: Mapping[str, Any], recipe: str) -> Paper:
    """The block as a store keeps it with the plan of a recipe that is not at hand."""
    block = plan.get("paper") or {}
    if mistakes := check(block):
        raise SplitbenchError(mistakes, source=f"the stored plan of {recipe}")
    return read(block, recipe, plan.get("title", ""))
