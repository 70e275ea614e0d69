"""A plot as inline SVG: marks, lines, their labels where there is room, and the same numbers as words.

Drawn at the width of a phone, so that nothing need be shrunk there; colours come from the page's style.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from splitbench.report.page.plot_axis import Axis

WIDTH, HEIGHT = 332, 256
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 30, 44
LETTER = 6.9  # of a label, at most, in the fonts that are usual
WIDEST = 146.0  # of labels beside lines
LINE = 13.0  # between labels
MANY = 9  # marks of a line, which are then smaller


@dataclass(frozen=True)
class Mark:
    """A value, with a label for people who see it and a sentence for the hover."""

    x: float
    y: float
    tip: str
    label: str = ""
    kind: str = "plain"  # plain, strong, base (undefended), doubt
    x_half: float | None = None
    y_half: float | None = None
    data: Mapping[str, str] = field(default_factory=dict)  # what filters go by


@dataclass(frozen=True)
class Line:
    """Values in their order, joined; its label stands at its end."""

    marks: tuple[Mark, ...]
    label: str = ""
    kind: str = "plain"  # plain, strong, base, front, rule (without marks)
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    key: str  # unique on the page
    title: str
    about: str  # the setting it is about
    dataset: str  # what filters go by
    description: str  # the plot in words
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    lines: tuple[Line, ...] = ()
    head: tuple[str, ...] = ()  # of the table that says the same
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""

    def svg(self) -> Markup:
        room = max((len(line.label) for line in self.lines if line.kind != "rule"), default=0)
        return _Canvas(self, min(WIDEST, room * LETTER + 10) if room else RIGHT).draw()


@dataclass(frozen=True)
class Section:
    plots: tuple[Plot, ...]
    left_out: int  # so many more would be too many


def section(plots: Sequence[Plot], most: int) -> Section:
    return Section(tuple(plots[:most]), len(plots[most:]))


def tag(name: str, attributes: Mapping[str, Any], *inside: Any) -> Markup:
    """An element; every value is escaped, and so is text."""
    said = Markup("").join(
        Markup(' {}="{}"').format(key, f"{value:.1f}" if isinstance(value, float) else value)
        for key, value in attributes.items()
        if value is not None
    )
    body = Markup("").join(escape(part) for part in inside)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), said, body)


class _Canvas:
    def __init__(self, plot: Plot, right: float) -> None:
        self.plot = plot
        self.right = WIDTH - right
        self.boxes: list[tuple[float, float, float, float]] = []  # taken by labels and marks

    def x(self, value: float) -> float:
        return LEFT + self.plot.x.share(value) * (self.right - LEFT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self.plot.y.share(value) * (HEIGHT - BOTTOM - TOP)

    def draw(self) -> Markup:
        plot, key = self.plot, self.plot.key
        lines = [self._line(line) for line in plot.lines]
        marks = [self._mark(mark) for mark in plot.marks]
        return tag(
            "svg",
            {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria-labelledby": f"{key}-t {key}-d", "class": "plot"},
            tag("title", {"id": f"{key}-t"}, f"{plot.title}: {plot.about}"),
            tag("desc", {"id": f"{key}-d"}, plot.description),
            *self._axes(),
            *lines,
            *marks,
            *self._ends(),
            *self._labels(),
        )

    def _axes(self) -> Iterable[Markup]:
        bottom, axis = float(HEIGHT - BOTTOM), self.plot
        for value, text in axis.y.ticks:
            at = self.y(value)
            yield tag("line", {"class": "mesh", "x1": LEFT, "x2": self.right, "y1": at, "y2": at})
            yield tag("text", {"class": "tick", "x": LEFT - 7, "y": at + 4, "text-anchor": "end"}, text)
        for value, text in axis.x.ticks:
            at = self.x(value)
            yield tag("line", {"class": "notch", "x1": at, "x2": at, "y1": bottom, "y2": bottom + 4})
            # A label in the middle of its tick may reach beyond the picture.
            at = min(max(at, len(text) * LETTER / 2), WIDTH - len(text) * LETTER / 2)
            yield tag("text", {"class": "tick", "x": at, "y": bottom + 17, "text-anchor": "middle"}, text)
        yield tag("line", {"class": "axis", "x1": LEFT, "x2": self.right, "y1": bottom, "y2": bottom})
        middle = (LEFT + self.right) / 2
        half = len(axis.x.label) * LETTER / 2
        at = min(max(middle, half + 2), WIDTH - half - 2)
        yield tag("text", {"class": "name", "x": at, "y": bottom + 37, "text-anchor": "middle"}, axis.x.label)
        yield tag("text", {"class": "name", "x": 0, "y": 11}, axis.y.label)

    def _mark(self, mark: Mark, size: float = 4.5) -> Markup:
        x, y = self.x(mark.x), self.y(mark.y)
        self.boxes.append((x - 5, y - 5, x + 5, y + 5))
        inside = []
        for horizontal, half in ((True, mark.x_half), (False, mark.y_half)):
            if half:
                ends = (
                    (self.x(mark.x - half), self.x(mark.x + half), y, y)
                    if horizontal
                    else (x, x, self._kept(mark.y - half), self._kept(mark.y + half))
                )
                inside.append(tag("line", {"class": "bar", **dict(zip(("x1", "x2", "y1", "y2"), ends, strict=True))}))
        inside.append(tag("circle", {"class": "hit", "cx": x, "cy": y, "r": 11}))
        if mark.kind == "base":
            half, side = size * 0.9, size * 1.8
            inside.append(tag("rect", {"class": "dot", "x": x - half, "y": y - half, "width": side, "height": side}))
        else:
            inside.append(tag("circle", {"class": "dot", "cx": x, "cy": y, "r": size}))
        data = {f"data-{name}": value for name, value in mark.data.items()}
        return tag("g", {"class": f"mark {mark.kind}", "data-tip": mark.tip, **data}, *inside)

    def _kept(self, value: float) -> float:
        """Inside the frame: an interval may reach beyond the axis."""
        return min(max(self.y(value), float(TOP)), float(HEIGHT - BOTTOM))

    def _line(self, line: Line) -> Markup:
        points = " ".join(f"{self.x(m.x):.1f},{self.y(m.y):.1f}" for m in line.marks)
        data = {f"data-{name}": value for name, value in line.data.items()}
        if line.kind == "front":  # labels keep off it
            for a, b in pairwise(line.marks):
                left, right = sorted((self.x(a.x), self.x(b.x)))
                upper, lower = sorted((self.y(a.y), self.y(b.y)))
                self.boxes.append((left, upper - 1, right, lower + 1))
        path = tag("polyline", {"class": "stroke", "points": points})
        size = 3.0 if len(line.marks) < MANY else 2.0
        dots = [] if line.kind in ("front", "rule") else [self._mark(mark, size) for mark in line.marks]
        return tag("g", {"class": f"line {line.kind}", **data}, path, *dots)

    def _ends(self) -> Iterable[Markup]:
        """Labels of lines, beside their ends, moved apart where they would meet; those of rules stand on them."""
        for line in self.plot.lines:
            if line.kind == "rule" and line.label and line.marks:
                x, y = float(LEFT + 3), self.y(line.marks[0].y) - 4
                self.boxes.append((x, y - 10, x + len(line.label) * LETTER, y + 3))
                yield tag("text", {"class": "label rule", "x": x, "y": y}, line.label)
        named = [line for line in self.plot.lines if line.label and line.marks and line.kind != "rule"]
        wanted = [(self.y(line.marks[-1].y), line) for line in named]
        places = spread([at for at, _ in wanted], LINE, float(TOP), float(HEIGHT - BOTTOM))
        for (_, line), at in zip(wanted, places, strict=True):
            data = {f"data-{name}": value for name, value in line.data.items()}
            label = cut(line.label, (WIDTH - self.right - 8) / LETTER)
            yield tag("text", {"class": f"label {line.kind}", "x": self.right + 7, "y": at + 4, **data}, label)

    def _labels(self) -> Iterable[Markup]:
        """Labels of marks where there is room; the hover and the table say those that have none."""
        for mark in self.plot.marks:
            if not mark.label:
                continue
            x, y, width = self.x(mark.x), self.y(mark.y), len(mark.label) * LETTER
            places = (
                (x + 9, y + 4, "start"), (x - 9, y + 4, "end"), (x + 6, y - 8, "start"), (x + 6, y + 17, "start"),
                (x - 6, y - 8, "end"), (x - 6, y + 17, "end"), (x, y - 11, "middle"), (x, y + 20, "middle"),
            )  # fmt: skip
            for at, base, anchor in places:
                left = at if anchor == "start" else at - width if anchor == "end" else at - width / 2
                box = (left, base - 10, left + width, base + 3)
                inside = left >= LEFT + 2 and left + width <= WIDTH - 2 and box[1] >= 0 and box[3] <= HEIGHT - BOTTOM
                if inside and not any(meet(box, other) for other in self.boxes):
                    self.boxes.append(box)
                    data = {f"data-{name}": value for name, value in mark.data.items()}
                    yield tag(
                        "text", {"class": f"label {mark.kind}", "x": at, "y": base, "text-anchor": anchor, **data},
                        mark.label,
                    )  # fmt: skip
                    break


def meet(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near those wanted, in their order, a gap apart if there is room for that."""
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    places = [0.0] * len(wanted)
    last = low - gap
    for i in order:
        last = places[i] = max(wanted[i], last + gap)
    last = high + gap
    for i in reversed(order):
        last = places[i] = min(places[i], last - gap)
    return places


def cut(text: str, letters: float) -> str:
    return text if len(text) <= letters else text[: max(1, int(letters) - 1)].rstrip() + "…"
