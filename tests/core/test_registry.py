from __future__ import annotations

import subprocess
import sys

import pytest

from splitbench.core import registry
from splitbench.core.component import Component
from splitbench.core.errors import SplitbenchError

PLUGIN = '''
from dataclasses import dataclass
from splitbench.core.defense import Defense

@dataclass(frozen=True)
class Mine(Defense):
    """My own."""
    strength: float = 1.0  # of it

class Unrelated:
    pass

thing = 3
'''


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN, encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_file_of_a_folder_is_a_component_of_its_name(kind):
    for name in registry._files(kind):
        path, found = registry.locate(kind, name)
        assert path.stem == name
        assert found.rstrip("_").lower() == name.replace("_", "")
        text, _ = registry.describe(kind, name)
        assert text, f"{kind}/{name} says nothing about itself"


def test_the_first_topologies_and_defenses_are_found():
    assert {"standalone", "vanilla", "u_shaped", "parallel", "splitfed"} <= set(registry.names("topologies"))
    assert {"none", "gaussian", "nopeek"} <= set(registry.names("defenses"))
    assert not [name for kind in registry.KINDS for name in registry.names(kind) if name.startswith("_")]


def test_a_name_that_python_keeps_for_itself_ends_with_an_underscore():
    assert registry.load("defenses", "none").__name__ == "None_"


def test_listing_and_describing_import_nothing_heavy():
    code = (
        "import sys; from splitbench.core import registry\n"
        "for kind in registry.KINDS:\n"
        "    for name in registry.names(kind): registry.describe(kind, name)\n"
        "assert not {'torch', 'timm', 'numpy', 'pydantic'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_misspelt_name_gets_the_nearest():
    with pytest.raises(SplitbenchError, match=r"no defense named 'gausian'; did you mean 'gaussian'\?"):
        registry.load("defenses", "gausian")


def test_a_class_in_a_file_is_a_component(plugin):
    spec = f"{plugin}:Mine"
    assert registry.load("defenses", spec)().strength == 1.0
    text, (setting,) = registry.describe("defenses", spec)
    assert (text, setting.note) == ("My own.", "of it")


def test_an_edited_file_is_another_version_and_another_class(plugin):
    spec = f"{plugin}:Mine"
    before = registry.load("defenses", spec)
    first = registry.version_of(before, spec)
    plugin.write_text(PLUGIN.replace("1.0", "2.0"), encoding="utf-8")
    after = registry.load("defenses", spec)
    assert after().strength == 2.0
    assert registry.version_of(after, spec) != first
    assert registry.version_of(registry.load("defenses", "gaussian"), "gaussian") == 1


def test_a_class_in_a_module_is_a_component():
    assert registry.load("defenses", "splitbench.defenses.gaussian:Gaussian") is registry.load("defenses", "gaussian")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("{}:Min", "holds no 'Min'; did you mean 'Mine'?"),
        ("{}:thing", "not a defense (a Defense)"),
        ("{}:Unrelated", "not a defense"),
        ("{}x.py:Mine", "no file"),
        ("no.such.module:Mine", "cannot import 'no.such.module'"),
        ("splitbench.topologies.vanilla:Vanilla", "must be a class derived from Defense"),
    ],
)
def test_what_is_not_a_component_is_refused_with_a_reason(plugin, name, sentence):
    with pytest.raises(SplitbenchError) as error:
        registry.load("defenses", name.format(plugin))
    assert sentence in str(error.value)


def test_a_file_that_cannot_be_imported_says_why(plugin):
    plugin.write_text("import nothing_of_this_name", encoding="utf-8")
    with pytest.raises(SplitbenchError, match="No module named 'nothing_of_this_name'"):
        registry.load("defenses", f"{plugin}:Mine")


def test_another_package_can_add_components(monkeypatch, plugin):
    monkeypatch.setattr(registry, "_plugins", lambda kind: {"mine": f"{plugin}:Mine"} if kind == "defenses" else {})
    assert "mine" in registry.names("defenses")
    assert registry.load("defenses", "mine").__name__ == "Mine"
    assert registry.describe("defenses", "mine")[0] == "My own."
    assert issubclass(registry.load("defenses", "mine"), Component)


@pytest.mark.parametrize(
    ("kind", "variable"), [("attacks", "role"), ("metrics", "leaks_when"), ("metrics", "tolerance")]
)
def test_what_the_source_declares_is_what_the_class_has(kind, variable):
    for name in registry.names(kind):
        assert registry.declared(kind, name, variable) == getattr(registry.load(kind, name), variable)


@pytest.mark.parametrize("name", ["", "gone", "gone.py:Attack", "gone.package:Attack"])
def test_what_is_not_here_is_as_its_kind_declares(name):
    assert registry.declared("attacks", name, "role") == "attack"
