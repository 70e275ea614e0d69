"""The MACs in a run's row are those that `profile` predicts for a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from splitbench.edge.ask import ask
from splitbench.edge.device import load
from splitbench.edge.profile import profile
from splitbench.runner.api import train


@pytest.mark.parametrize("topology", ["vanilla", "u_shaped"])
@pytest.mark.parametrize("defense", ["none", {"seal": {"omega": 0.7}}, {"gaussian": {"sigma": 1}}])
def test_a_row_has_what_profile_predicts(topology: str, defense: Any, tmp_path: Path) -> None:
    setting: dict[str, Any] = {"model": "lenet5", "cut": "conv2", "topology": topology}
    outcome = train(
        defense, store=tmp_path, training={"epochs": 1, "batch": 16},
        samples={"private": 32, "auxiliary": 8, "evaluation": 4}, **setting,
    )  # fmt: skip
    assert outcome.status == "done", outcome.reason
    case = ask(defenses=() if defense == "none" else (defense,), training={"batch": 1}, work="inference", **setting)
    shares = [share for share in profile(case, load("rpi4")).shares if share.party == "client"]
    assert outcome.costs["edge_macs"] == sum(share.forward for share in shares) > 0
