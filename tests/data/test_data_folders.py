"""Where data is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from splitbench.core import registry
from splitbench.core.component import settings_of, validated
from splitbench.core.errors import SplitbenchError
from splitbench.data._folders import EMBEDDED, folders, search
from splitbench.data._listing import found, listing

each = pytest.mark.parametrize("name", registry.names("data"))


@pytest.fixture
def alone(tmp_path, monkeypatch) -> Path:
    """A machine with no data but what ships with splitbench."""
    monkeypatch.setenv("SPLITBENCH_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_users_folders_come_first_then_downloads_then_what_ships(monkeypatch):
    monkeypatch.setenv("SPLITBENCH_DATA", os.pathsep.join(["/a", "/b"]))
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert folders() == (Path("/a"), Path("/b"), Path("/c/splitbench/data"), EMBEDDED)


def test_without_settings_downloads_are_under_the_home_folder(monkeypatch):
    monkeypatch.delenv("SPLITBENCH_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert folders() == (Path("/home/someone/.cache/splitbench/data"), EMBEDDED)


def test_an_earlier_folder_wins_over_an_earlier_file(tmp_path):
    for place in ("a/second", "b/first"):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).touch()
    assert search(("first", "second"), (tmp_path / "a", tmp_path / "b")) == tmp_path / "a" / "second"


@each
def test_a_missing_data_set_says_what_was_looked_for_where_and_what_to_do(name, alone):
    if name == "fashion_mnist_mini":
        pytest.skip("never missing")
    component = registry.load("data", name)
    with pytest.raises(SplitbenchError) as error:
        component().load(folders())
    said = str(error.value)
    assert all(file in said for file in component.files)
    assert all(str(place) in said for place in folders())
    assert f"splitbench data fetch {name}" in said
    assert "SPLITBENCH_DATA" in said


@each
def test_it_says_what_it_is_and_its_settings_have_defaults_and_explanations(name):
    kind = registry.load("data", name)
    assert (kind.__doc__ or "").partition("\n")[0].rstrip().endswith(".")
    settings, mistakes = validated(kind, {}, name)
    assert not mistakes
    assert settings.keys() == settings_of(kind).keys()
    assert all(setting.note for setting in registry.describe("data", name)[1])


def test_the_listing_names_every_data_set_and_how_to_come_by_it(alone, monkeypatch):
    (alone / "mine").mkdir()
    (alone / "mine" / "mnist.npz").write_bytes(b"0" * 2_000_000)
    (alone / "mine" / "aclImdb").mkdir()
    monkeypatch.setenv("SPLITBENCH_DATA", str(alone / "mine"))
    entries = {entry.name: entry for entry in listing()}
    assert list(entries) == registry.names("data")
    assert entries["mnist"].path == alone / "mine" / "mnist.npz"
    assert entries["mnist"].note.startswith("2.0 MB")
    assert (entries["imdb"].path, entries["imdb"].note) == (alone / "mine" / "aclImdb", "official files")
    assert (entries["cifar10"].path, entries["cifar10"].note) == (None, "splitbench data fetch cifar10")
    assert entries["fashion_mnist_mini"].note == "ships with splitbench"


def test_a_path_of_ones_own_is_found_where_it_is(alone):
    path = alone / "own.npz"
    path.touch()
    assert found(str(path)) == path
