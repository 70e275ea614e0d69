"""Every attack of the registry, on a run of two clients with unequal shares, alone and at the same time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import splitbench as sb
from splitbench.core import registry
from splitbench.core.attack import Attack
from splitbench.core.goal import GOALS

from ._tiny import IMAGES, TABLES, TOKENS, quick

UNEVEN = {"private": 49, "auxiliary": 16, "evaluation": 3, "candidates": 6}  # 25 and 24: the last batches differ
COLUMNS = 5
PUZZLING = ("jigsaw", "batch_jigsaw", "multi_round")  # hundreds of places take them minutes


@pytest.fixture(scope="session")
def own_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows for the attacks on tables, since no table is in the package."""
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    names = [f"n{i}" for i in range(COLUMNS - 1)]
    lines = [",".join([*names, "colour", "label"])]
    for row in range(200):
        numbers = [f"{math.sin(row * (i + 1)):.4f}" for i in range(COLUMNS - 1)]
        lines.append(",".join([*numbers, ("red", "green", "blue")[row % 3], str(row % 2)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session", params=["vanilla", "parallel"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_table: Path
) -> tuple[Path, dict[str, str]]:
    """A store, and the run of each modality in it."""
    store = tmp_path_factory.mktemp(request.param)
    common: dict[str, Any] = {"clients": 2, "topology": request.param, "samples": UNEVEN}
    images = sb.train("seal", store=store, **{**IMAGES, "cut": "relu1", **common})
    tokens = sb.train("batch_shuffle", store=store, **{**TOKENS, **common})
    tables = sb.train("gaussian", store=store, **{**TABLES, "data": str(own_table), **common})
    for trained in (images, tokens, tables):
        assert trained.status == "done", trained.reason
    return store, {"image": images.run, "tokens": tokens.run, "tabular": tables.run}


@pytest.mark.parametrize("name", registry.names("attacks"))
def test_it_is_mounted_on_two_clients(name: str, runs: tuple[Path, dict[str, str]]) -> None:
    store, trained = runs
    attack: Attack = registry.load("attacks", name)()  # type: ignore[assignment]
    works_on = (attack.modality,) if isinstance(attack.modality, str) else attack.modality or ("image", "tabular")
    granted: dict[str, Any] = {"tampers": True, "knowledge": "family", "weights": attack.needs.weights}
    kinds = ["tokens" if name in PUZZLING else kind for kind in works_on]
    mounted = [sb.attack(quick(name), run=trained[kind], store=store, **granted) for kind in kinds if kind in trained]
    assert mounted
    for outcome in mounted:
        assert outcome.status == "done", outcome.reason
        assert (outcome.goal, outcome.role, outcome.clients) == (attack.goal, attack.role, 2)
        assert outcome.ranking == GOALS[attack.goal].ranking(outcome.modality)
        score = outcome.score(outcome.ranking)
        assert score is not None
        assert math.isfinite(score.value)


@pytest.mark.parametrize(
    "name", [n for n in registry.names("attacks") if n not in ("field_decoder", "lookup", "prior")]
)
def test_on_data_it_is_not_for_it_is_skipped_with_a_sentence(name: str, runs: tuple[Path, dict[str, str]]) -> None:
    store, trained = runs
    attack: Attack = registry.load("attacks", name)()  # type: ignore[assignment]
    if attack.modality is None:
        pytest.skip("it is for any data")
    outcome = sb.attack(quick(name), run=trained["tabular"], store=store, tampers=True, knowledge="family")
    assert outcome.status == "skipped"
    assert outcome.reason.startswith(f"{name} works on image, ")
