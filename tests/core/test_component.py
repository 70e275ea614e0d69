from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from splitbench.core.component import (
    Component,
    Part,
    defaults_of,
    instantiate,
    read_declared,
    read_settings,
    settings_of,
    validated,
)

SOURCE = '''
from x import y

@dataclass
class Other:
    decoy: int = 1  # not this one

@dataclass(frozen=True)
class Shown(Component):
    """Does something.

    A paper.
    """

    version: ClassVar[int] = 2
    rate: Annotated[float, Ge(0)] = 0.5  # how fast
    name: str = "a#b"
    learned: dict = field(init=False, default_factory=dict)  # no setting
    many: tuple[int, ...] = (
        1,
        2,
    )  # several
'''


@dataclass(frozen=True)
class Sample(Component):
    version: ClassVar[int] = 2
    rate: Annotated[float, Ge(0)] = 0.5
    mode: Literal["rows", "columns"] = "rows"
    sizes: tuple[int, ...] = (1, 2)
    model_path: str = ""
    learned: dict[str, int] = field(init=False, default_factory=dict)


class Bare(Component):
    pass


def test_settings_are_the_fields_a_caller_may_give():
    assert list(settings_of(Sample)) == ["rate", "mode", "sizes", "model_path"]
    assert settings_of(Bare) == {}


def test_defaults_are_filled_in_as_plain_data():
    settings, mistakes = validated(Sample, {"rate": 2}, "defense")
    assert settings == {"rate": 2.0, "mode": "rows", "sizes": [1, 2], "model_path": ""}
    assert mistakes == []


def test_every_mistake_is_reported_at_once_with_its_place():
    given = {"rat": 1, "rate": -1, "mode": "row", "sizes": [1, "x"]}
    _, mistakes = validated(Sample, given, "defenses[0].sample")
    assert {m.where.removeprefix("defenses[0].sample."): m.what for m in mistakes} == {
        "rat": "no setting named 'rat'; did you mean 'rate'?",
        "rate": "expected greater than or equal to 0, got -1",
        "mode": "expected 'rows' or 'columns', got 'row'",
        "sizes.1": "expected a valid integer, unable to parse string as an integer, got 'x'",
    }


def test_a_component_without_settings_says_so():
    _, mistakes = validated(Bare, {"rate": 1}, "")
    assert [(m.where, m.what) for m in mistakes] == [("rate", "no setting named 'rate'; Bare has no settings")]


def test_settings_can_be_read_without_importing(tmp_path):
    path = tmp_path / "shown.py"
    path.write_text(SOURCE, encoding="utf-8")  # importing it would fail: there is no module x
    text, settings = read_settings(path, "Shown")
    assert text.startswith("Does something.")
    assert [(s.name, s.annotation, s.default, s.note) for s in settings] == [
        ("rate", "Annotated[float, Ge(0)]", "0.5", "how fast"),
        ("name", "str", "'a#b'", ""),
        ("many", "tuple[int, ...]", "(1, 2)", "several"),
    ]
    assert read_settings(path, "Absent") == ("", [])


def test_a_part_as_plain_data_is_all_that_decides_what_it_does():
    part = Part("defenses", "gaussian", {"sigma": 0.5}, 3)
    assert part.document() == {"name": "gaussian", "version": 3, "settings": {"sigma": 0.5}}


def test_plain_data_becomes_the_types_a_component_declares():
    assert instantiate(Sample, {"sizes": [3, 4]}) == Sample(sizes=(3, 4))
    assert instantiate(Sample, defaults_of(Sample)) == Sample()
    assert isinstance(instantiate(Bare, {}), Bare)


def test_settings_inherited_from_another_class_are_listed_first(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from splitbench.attacks.inversion import Inversion\n\n\n"
        "class Base(Inversion):\n    extra: int = 1  # more\n\n\n"
        "class Own(Base):\n    steps: int = 9  # fewer\n"
    )
    _, settings = read_settings(path, "Own")
    names = [setting.name for setting in settings]
    assert names[-1] == "extra"
    assert "lr" in names
    assert next(s for s in settings if s.name == "steps").default == "9"


def test_a_class_variable_can_be_read_without_importing(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from x import y\nfrom splitbench.attacks._floors.floor import Floor\n\n\n"
        "class Base(Floor):\n    plain = 3\n    made: ClassVar[int] = y()\n\n\n"
        "class Own(Base):\n    plain: ClassVar[int] = 4\n"
    )
    assert read_declared(path, "Base", "plain") == 3
    assert read_declared(path, "Own", "plain") == 4
    assert read_declared(path, "Own", "role") == "floor"
    assert read_declared(path, "Own", "made") is None, "only running it would tell"
    assert read_declared(path, "Own", "absent") is None
    assert read_declared(path, "Absent", "plain") is None
