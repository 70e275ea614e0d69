"""Every defense of the registry under every topology, with two clients: trained, attacked, evaluated."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import splitbench as sb
from splitbench.core import registry
from splitbench.defenses._shuffling.tokens import Shuffling
from splitbench.runner import api

from ._tiny import IMAGES, TOKENS, quick


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all of them, so that undefended twins are trained once."""
    return tmp_path_factory.mktemp("topologies")


@pytest.mark.parametrize("defense", registry.names("defenses"))
@pytest.mark.parametrize("topology", registry.names("topologies"))
def test_it_trains_and_is_attacked(topology: str, defense: str, store: Path) -> None:
    shuffles = issubclass(registry.load("defenses", defense), Shuffling)
    how = {**(TOKENS if shuffles else {**IMAGES, "cut": "relu1"}), "topology": topology, "clients": 2}
    trained = sb.train(defense, store=store, **how)
    assert trained.status == "done", trained.reason
    assert math.isfinite(trained.costs["loss"])
    crosses = topology != "standalone"
    assert (trained.costs["bytes_up"] > 0) == crosses
    if not shuffles:  # a client that shuffles is frozen, and is sent no gradient
        assert (trained.costs["bytes_down"] > 0) == crosses
    outcome = sb.attack(quick("inversion"), run=trained.run, store=store)
    if not crosses:
        assert (outcome.status, outcome.reason) == (
            "skipped", "nothing crosses the wire in the topology 'standalone'")  # fmt: skip
        return
    assert outcome.status == "done", outcome.reason
    assert math.isfinite(outcome.ranked["ssim"])
    verdict = api.verdict(outcome, store=store)
    assert verdict.undefended is not None
    assert verdict.floor is not None
    if defense == "none":
        assert verdict.value == verdict.undefended
