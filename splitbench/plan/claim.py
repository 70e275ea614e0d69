"""What the text of a paper claims, as comparisons that rows can answer.

    claims:
      - id: withstands
        says: SEAL withstands state-of-the-art reconstruction attacks     # the paper's own words
        section: abstract
        compare: {left: {attack: each, dataset: each, metric: ssim}, is: below, factor: 0.25, right: twin}

`left` says which values, axis by axis (see axes.py; a metric may be a cost): one, a list (each of them), `each` or
`mean` of all that `names` has, or `{mean: [a, b]}`. `right` is `twin` (the same on the undefended run), a number, or
the axes in which it differs from the left. `below` and `above` compare with factor * right + offset; `within` wants a
difference smaller than `margin`. `compare` may be a list; the claim then holds if all of it does.
`{any: [one, another]}` holds if one of them does, question by question: they ask equally many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from splitbench.core.errors import Mistake, nearest
from splitbench.plan.axes import check_axis, check_value, plain, resolve

Relation = Literal["below", "above", "within"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
KEYS = ("id", "says", "section", "compare")
ANY = "any"
PARTS = ("left", "is", "right", "factor", "offset", "margin")
At = dict[str, str]
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Comparison:
    left: Mapping[str, Any]
    relation: Relation
    right: float | Literal["twin"] | Mapping[str, Any]
    factor: float = 1.0
    offset: float = 0.0
    margin: float = 0.0

    def pairs(self, names: Names, where: Mapping[str, str]) -> Iterator[tuple[list[At], float | str | list[At]]]:
        """Each question this asks: the cells whose mean is on the left, and what they are compared with."""
        for left in _choices({**where, **self.left}, names):
            if not isinstance(self.right, Mapping):
                yield _cells(left), self.right
                continue
            for right in _choices(self.right, names):
                yield _cells(left), _cells({**left, **right})

    def bound(self) -> str:
        """The right side in words, without its name."""
        if self.relation == "within":
            return f"within {self.margin:g} of"
        factor = "" if self.factor == 1 else f"{self.factor:g} × "
        offset = "" if not self.offset else f"{abs(self.offset):g} {'more' if self.offset > 0 else 'less'} than "
        return f"{self.relation} {offset}{factor}".strip()


@dataclass(frozen=True)
class Either:
    """Comparisons of which one must hold, question by question."""

    several: tuple[Comparison, ...]

    def pairs(self, names: Names, where: Mapping[str, str]) -> Iterator[tuple[list[At], float | str | list[At]]]:
        for one in self.several:
            yield from one.pairs(names, where)


@dataclass(frozen=True)
class Claim:
    id: str
    says: str
    section: str
    compare: tuple[Comparison | Either, ...]


def _options(spec: Any, named: Sequence[str]) -> list[tuple[str, ...]]:
    """The alternatives on an axis, each with the values whose mean it is."""
    if spec == "each":
        return [(value,) for value in named]
    if spec == "mean":
        return [tuple(named)]
    if isinstance(spec, Mapping):
        return [tuple(map(plain, spec["mean"]))]
    if isinstance(spec, list | tuple):
        return [(plain(value),) for value in spec]
    return [(plain(spec),)]


def _choices(given: Mapping[str, Any], names: Names) -> Iterator[dict[str, tuple[str, ...]]]:
    options = [_options(spec, names.get(axis, ())) for axis, spec in given.items()]
    for chosen in itertools.product(*options):
        yield dict(zip(given, chosen, strict=True))


def _cells(choice: Mapping[str, tuple[str, ...]]) -> list[At]:
    return [dict(zip(choice, values, strict=True)) for values in itertools.product(*choice.values())]


def read(given: Sequence[Mapping[str, Any]]) -> tuple[Claim, ...]:
    def comparison(c: Mapping[str, Any]) -> Comparison:
        given = c["right"]
        right = _resolved(given) if isinstance(given, Mapping) else given if isinstance(given, str) else float(given)
        numbers = {key: float(c[key]) for key in ("factor", "offset", "margin") if key in c}
        return Comparison(_resolved(c["left"]), c["is"], right, **numbers)  # type: ignore[arg-type]

    def either(c: Mapping[str, Any]) -> Comparison | Either:
        return Either(tuple(map(comparison, c[ANY]))) if ANY in c else comparison(c)

    return tuple(
        Claim(str(c["id"]), c["says"], str(c["section"]), tuple(either(one) for one in _listed(c["compare"])))
        for c in given
    )


def _resolved(side: Mapping[str, Any]) -> dict[str, Any]:
    """Axes by their one name."""
    return {resolve(axis): spec for axis, spec in side.items()}


def _listed(compare: Any) -> list[Any]:
    return compare if isinstance(compare, list) else [compare]


def check(given: Any, names: Names, where: str) -> list[Mistake]:
    """Every mistake in the claims. `names` has what stands on each axis, by the one name that the axis has."""
    if not isinstance(given, list):
        return [Mistake(where, f"expected a list of claims, got {given!r}")]
    mistakes: list[Mistake] = []
    seen: dict[str, int] = {}
    for i, claim in enumerate(given):
        place = f"{where}[{i}]"
        if not isinstance(claim, Mapping):
            mistakes.append(Mistake(place, f"expected a claim with {', '.join(KEYS)}, got {claim!r}"))
            continue
        mistakes += _keys(claim, KEYS, KEYS, place)
        for key in ("id", "says", "section"):
            if key in claim and (isinstance(claim[key], Mapping | list) or not str(claim[key] or "").strip()):
                mistakes.append(Mistake(f"{place}.{key}", f"expected a text, got {claim[key]!r}"))
        name = str(claim.get("id"))
        if name in seen:
            mistakes.append(Mistake(f"{place}.id", f"'{name}' is the id of claim {seen[name] + 1} too"))
        seen.setdefault(name, i)
        if "compare" in claim:
            listed = isinstance(claim["compare"], list)
            if claim["compare"] == []:
                mistakes.append(Mistake(f"{place}.compare", "compares nothing"))
            for j, one in enumerate(_listed(claim["compare"])):
                mistakes += _check_one(one, names, f"{place}.compare[{j}]" if listed else f"{place}.compare")
    return mistakes


def _keys(given: Mapping[Any, Any], known: Sequence[str], needed: Sequence[str], where: str) -> list[Mistake]:
    unknown = [k for k in given if k not in known]
    return [
        *(Mistake(f"{where}.{k}", f"no setting named '{k}'{nearest(str(k), known)}") for k in unknown),
        *(Mistake(where, f"has no `{k}`") for k in needed if k not in given),
    ]


def _check_one(one: Any, names: Names, where: str) -> list[Mistake]:
    if not isinstance(one, Mapping):
        return [Mistake(where, f"expected a comparison {{left: ..., is: below, right: twin}}, got {one!r}")]
    if ANY in one:
        return _check_any(one, names, where)
    mistakes = _keys(one, PARTS, ("left", "is", "right"), where)
    relation, right = one.get("is"), one.get("right")
    if "is" in one and relation not in RELATIONS:
        mistakes.append(Mistake(f"{where}.is", f"no comparison named '{relation}'{nearest(str(relation), RELATIONS)}"))
    for key in ("factor", "offset", "margin"):
        if key in one and not _number(one[key]):
            mistakes.append(Mistake(f"{where}.{key}", f"expected a number, got {one[key]!r}"))
    if relation == "within":
        mistakes += [Mistake(f"{where}.{k}", "goes with below or above, not with within")
                     for k in ("factor", "offset") if k in one]  # fmt: skip
        if not _number(one.get("margin")) or one["margin"] <= 0:
            mistakes.append(Mistake(where, "`within` takes a `margin` above 0"))
    elif "margin" in one:
        mistakes.append(Mistake(f"{where}.margin", "goes with within; below and above take `offset` and `factor`"))
    if "left" in one:
        mistakes += _check_side(one["left"], names, f"{where}.left")
        if isinstance(one["left"], Mapping) and "metric" not in one["left"]:
            mistakes.append(Mistake(f"{where}.left", "does not say which metric"))
    if isinstance(right, Mapping):
        mistakes += _check_side(right, names, f"{where}.right")
        if not right:
            mistakes.append(Mistake(f"{where}.right", "differs from the left in nothing"))
    elif isinstance(right, str) and right != "twin":
        mistakes.append(
            Mistake(f"{where}.right", f"expected twin, a number or axes, got '{right}'{nearest(right, ['twin'])}")
        )
    elif "right" in one and not isinstance(right, str) and not _number(right):
        mistakes.append(Mistake(f"{where}.right", f"expected twin, a number or axes, got {right!r}"))
    return mistakes


def _check_any(one: Mapping[str, Any], names: Names, where: str) -> list[Mistake]:
    several, place = one[ANY], f"{where}.{ANY}"
    if len(one) > 1 or not isinstance(several, list) or len(several) < 2:
        return [Mistake(place, f"expected {{{ANY}: [two comparisons or more]}}, got {dict(one)!r}")]
    if wrong := [m for i, c in enumerate(several) for m in _check_one(c, names, f"{place}[{i}]")]:
        return wrong
    if any(ANY in c for c in several):
        return [Mistake(place, "alternatives have no alternatives of their own")]
    read_as = read([{"id": "", "says": "", "section": "", "compare": several}])[0].compare
    asked = [len(list(c.pairs(names, {}))) for c in read_as]
    return [] if len(set(asked)) == 1 else [Mistake(place, f"they ask {', '.join(map(str, asked))} questions")]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_side(side: Any, names: Names, where: str) -> list[Mistake]:
    if not isinstance(side, Mapping):
        return [Mistake(where, f"expected axes and what stands there, got {side!r}")]
    mistakes: list[Mistake] = []
    for axis, spec in side.items():
        place = f"{where}.{axis}"
        if wrong := check_axis(axis, place):
            mistakes += wrong
        elif spec in ("each", "mean") if isinstance(spec, str) else False:
            if not names.get(resolve(axis)):
                mistakes.append(Mistake(place, f"'{spec}' of what? `names` has nothing on the axis '{axis}'"))
        elif isinstance(spec, Mapping):
            values = spec.get("mean")
            if set(spec) != {"mean"} or not isinstance(values, list) or not values:
                mistakes.append(Mistake(place, f"expected {{mean: [values]}}, got {dict(spec)!r}"))
            else:
                mistakes += [m for i, v in enumerate(values) for m in check_value(axis, v, f"{place}.mean[{i}]")]
        elif isinstance(spec, list):
            mistakes += [] if spec else [Mistake(place, "an empty list asks nothing")]
            mistakes += [m for i, value in enumerate(spec) for m in check_value(axis, value, f"{place}[{i}]")]
        else:
            mistakes += check_value(axis, spec, place)
    return mistakes
