"""Every data set of the registry trains, is attacked, evaluated and put into a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import splitbench as sb
from splitbench.core import registry
from splitbench.core.goal import GOALS
from splitbench.report.tables.table import table
from splitbench.store.outcome import Outcome

from ._tiny import IMAGES, quick, setting, spec

ATTACKS = {"image": ["inversion", "mean_image"], "text": ["lookup", "prior"], "tabular": ["lookup", "prior"]}


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tmp_path_factory.mktemp(name) for name in registry.names("data")}


def sound(outcome: Outcome) -> bool:
    assert outcome.status == "done", outcome.reason
    assert outcome.scores
    assert all(math.isfinite(v) for s in outcome.scores for v in (s.value, *s.values))
    assert outcome.ranking in {score.metric for score in outcome.scores}
    return True


@pytest.mark.parametrize("name", registry.names("data"))
def test_it_trains_is_attacked_and_evaluated(name: str, stores: dict[str, Path]) -> None:
    how, store = setting(name), stores[name]
    trained = sb.train("gaussian", store=store, **how)
    assert sound(trained)
    assert 0 < trained.costs["chance"] < 1
    mounted = {}
    for attack in ATTACKS[trained.modality]:
        mounted[attack] = sb.attack(quick(attack), store=store)
        assert sound(mounted[attack])
        assert len(mounted[attack].samples) == 3
        assert mounted[attack].modality == trained.modality
    evaluated = sb.evaluate(store=store)
    assert {o.status for o in evaluated} <= {"done", "skipped"}
    done = {o.attack for o in evaluated if o.status == "done" and o.role == "floor"}
    assert GOALS["inputs"].floor(trained.modality) in done
    assert all("works on" in o.reason for o in evaluated if o.status == "skipped")
    [made] = table(store=store)
    assert made.metric == GOALS["inputs"].ranking(trained.modality)
    assert "gaussian" in {row.partition("(")[0] for row in made.rows}


FACES: dict[str, Any] = {**IMAGES, "data": spec("celeba"), "auxiliary": spec("lfw")}


def test_faces_of_other_people_serve_against_those_of_celebrities(tmp_path: Path) -> None:
    """Public images of LFW: attacks that use their labels are refused, the others work."""
    setting("lfw")
    setting("celeba")
    trained = sb.train("none", store=tmp_path, **FACES)
    assert sound(trained)
    for name in ("inversion", "mean_image", "black", "fora"):
        assert sound(sb.attack(quick(name), store=tmp_path))
    for name in ("sdar", "class_mean", "nearest_auxiliary"):
        refused = sb.attack(quick(name), store=tmp_path)
        assert refused.status == "skipped"
        assert refused.reason == (
            f"{name} uses the labels of auxiliary samples, and those of lfw mean something else than those of celeba"
        )
    same = sb.train("none", store=tmp_path, **{**FACES, "auxiliary": None})
    assert same.run != trained.run
    assert sound(sb.attack(quick("class_mean"), run=same.run, store=tmp_path))


def test_attributes_of_celebrities_are_learned_and_scored(tmp_path: Path) -> None:
    how = setting("celeba")
    how["training"] = {"epochs": 3, "batch": 16, "lr": 0.003}
    how["samples"] = {"private": 320, "auxiliary": 12, "evaluation": 3}
    trained = sb.train("none", store=tmp_path, **how)
    assert sound(trained)
    assert trained.ranked["accuracy"] > 0.7  # forty attributes, most of which are rare
    assert sound(sb.attack(quick("sdar"), store=tmp_path))
