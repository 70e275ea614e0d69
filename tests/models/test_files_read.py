"""Settings that are paths are declared, so that what is in the files is part of a run's identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from splitbench.core.component import settings_of
from splitbench.core.registry import KINDS, load, names

EVERY = [(kind, name) for kind in KINDS for name in names(kind)]


@pytest.mark.parametrize(("kind", "name"), [*EVERY, ("models", "convnext_atto")])
def test_what_a_component_reads_is_named_by_settings_of_text(kind, name) -> None:
    component = load(kind, name)
    known = settings_of(component)
    assert set(component.reads) <= set(known)
    for path in {"weights", "tokenizer"} & set(known):
        assert path in component.reads
    for setting in component.reads:
        assert known[setting].type in ("str", str)
        assert known[setting].default == ""


def test_the_paths_are_those_that_the_settings_name() -> None:
    assert load("models", "roberta_base")().read_paths() == ()
    assert load("models", "roberta_base")(weights="a/b").read_paths() == (Path("a/b"),)
    assert load("data", "imdb")(tokenizer="~/t").read_paths() == (Path.home() / "t",)
    assert load("models", "lenet5")().read_paths() == ()
    assert load("models", "minilm")(weights="none").read_paths() == ()
